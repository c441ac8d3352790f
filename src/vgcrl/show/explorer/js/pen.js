// Shapes on a canvas.

export function arrow(pen, [x, y], [dx, dy], colour, width) {
  const length = Math.hypot(dx, dy);
  if (length < 2) return;
  const [ux, uy, head] = [dx / length, dy / length, Math.min(7, length)];
  pen.strokeStyle = pen.fillStyle = colour;
  pen.lineWidth = width;
  pen.beginPath();
  pen.moveTo(x, y);
  pen.lineTo(x + dx - ux * head * 0.7, y + dy - uy * head * 0.7);
  pen.stroke();
  pen.beginPath();
  pen.moveTo(x + dx, y + dy);
  pen.lineTo(x + dx - head * (ux + 0.5 * uy), y + dy - head * (uy - 0.5 * ux));
  pen.lineTo(x + dx - head * (ux - 0.5 * uy), y + dy - head * (uy + 0.5 * ux));
  pen.fill();
}

export function disc(pen, at, radius, fill, stroke) {
  pen.beginPath();
  pen.arc(...at, radius, 0, 2 * Math.PI);
  if (fill) { pen.fillStyle = fill; pen.fill(); }
  if (stroke) { pen.strokeStyle = stroke; pen.lineWidth = 2; pen.stroke(); }
}
