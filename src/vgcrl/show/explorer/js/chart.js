// The last values as a line, with chance and, where there is one, the best.
import { BODY } from "vgcrl/colours.js";
import { number } from "vgcrl/words.js";

export function drawChart(canvas, values, best) {
  const pen = canvas.getContext("2d");
  const ratio = Math.min(devicePixelRatio, 2);
  const [w, h] = [canvas.clientWidth, canvas.clientHeight];
  if (!w) return;
  [canvas.width, canvas.height] = [w * ratio, h * ratio];
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  const top = Math.max(best ?? 1, 1, ...values) + 0.3;
  const bottom = Math.min(-1, ...values) - 0.3;
  const y = (v) => h - ((v - bottom) / (top - bottom)) * h;
  pen.font = "11px system-ui, sans-serif";
  [[0, "chance"], [best, "best"]].forEach(([level, name]) => {
    if (level === undefined) return;
    pen.strokeStyle = "#d5d0c3";
    pen.setLineDash([3, 3]);
    pen.beginPath();
    pen.moveTo(0, y(level)); pen.lineTo(w, y(level));
    pen.stroke();
    pen.setLineDash([]);
    pen.fillStyle = "#8b867a";
    pen.fillText(name, 2, y(level) + (level === best || y(level) < 12 ? 11 : -3)); // above its line where there is room
  });
  if (bottom < -3) pen.fillText(number(bottom, 0), 2, h - 3);
  pen.strokeStyle = BODY;
  pen.lineWidth = 2;
  pen.lineJoin = "round";
  pen.beginPath();
  values.forEach((v, i) => pen[i ? "lineTo" : "moveTo"](w - (values.length - 1 - i) * (w / 239), y(v)));
  pen.stroke();
}
