// Colours that several parts share.
export const INK = "#2c2a26";
export const BODY = "#d9702a";
export const RIVAL = "#3f7fc4";
export const GOAL = "#1f8a5b";

// One hue per skill, as different as can be.
export const skillColour = (i, count, alpha = 1) => `hsl(${(205 + (i * 360) / count) % 360} 62% ${i % 2 ? 58 : 47}% / ${alpha})`;
