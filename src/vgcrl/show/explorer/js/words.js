// What the page says: of a goal, of what one can do, of where the numbers stand.
const minus = (text) => text.replaceAll("-", "−");
export const number = (v, digits = 2) => minus((Math.abs(v) < 0.5 * 10 ** -digits ? 0 : v).toFixed(digits));
const list = (values) => `(${values.slice(0, 4).map((v) => number(v)).join(", ")}${values.length > 4 ? ", …" : ""})`;

export const BODIES = { HalfCheetah: "half-cheetah", Ant: "ant", Humanoid: "humanoid" };
const NAMES = { pointmass: "point mass", "windy-pointmass": "point mass in the wind", "projected-pointmass": "point mass seen through a random map" };

export const who = ({ env }) => BODIES[env] ?? NAMES[env] ?? env;

export function goalText({ meaning }, goals, z) {
  if (goals.kind === "discrete") return `skill ${z}`;
  const values = goals.show(z);
  if (meaning === "place") return `${list(values)} m`;
  if (meaning === "velocity") return `${values.length > 1 ? list(values) : number(values[0])} m/s`;
  return list(values);
}

// The one sentence that says what to do.
export function invitation({ meaning, world }, goals) {
  if (goals.kind === "discrete") return "Pick a skill that it has taught itself, and watch.";
  if (meaning === "place") return world.kind === "body" ? "Click anywhere on the ground: it goes there." : "Click anywhere in the arena: it goes there.";
  if (meaning === "velocity") return `Choose a velocity, or click on the ground: it goes there.`;
  const where = world.kind === "body" ? "on the ground" : "in the arena";
  if (world.place.length) return `Choose z in the panel, or click ${where} where it should go.`;
  return goals.dim === 2 ? "Drag the dot: every place on the pad is another way to behave." : "Move the sliders: every setting is another way to behave.";
}

export function pickerText({ meaning, world }, goals, hasPosterior) {
  const seen = { discrete: "The fuller a button, the likelier q finds its skill in what it sees." };
  const ring = "Green is the goal; the orange mark is where q sees the agent now.";
  const what = {
    latent: "A goal z without a name: training gave it its meaning.",
    place: `A place ${world.kind === "body" ? "on the ground" : "in the arena"}, in metres.`,
    velocity: `The velocity asked for, in m/s; right is forward${goals.dim > 1 ? ", up is to the left" : ""}.`,
    state: "The state to be reached.",
  }[meaning];
  if (goals.kind === "discrete") return hasPosterior ? seen.discrete : "";
  return [what, hasPosterior ? ring : ""].join(" ");
}

export function opinionText({ best, unbounded }) {
  if (unbounded) return "log q − log p = ⟨φ(s′) − φ(s), z⟩: how far this step went where z points. 0 is not at all; higher is better.";
  const top = best === undefined ? "" : `, ${number(best)} certainty`;
  return `log q(z|s) − log p(z): how well what q sees tells the goal pursued. 0 is chance${top}; higher is better.`;
}

// What the colours of the arena say; nothing where there are none.
export function legend({ world, meaning, sees }, goals, hasPosterior) {
  if (world.kind !== "pointmass" || world.place.length < 2 || !hasPosterior || sees !== "state") return "";
  if (goals.kind === "discrete") return "In the arena: the skill that q finds likeliest at each place, the surer the stronger.";
  const sigma = meaning === "latent" ? "" : " The dashed ellipse is one σ of q.";
  return `In the arena: the greener a place, the better it suits the goal.${sigma}`;
}
