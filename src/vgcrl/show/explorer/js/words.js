// What the page says: of a goal, of what one can do, of where the numbers stand.
const minus = (text) => text.replaceAll("-", "−");
export const number = (v, digits = 2) => minus((Math.abs(v) < 0.5 * 10 ** -digits ? 0 : v).toFixed(digits));
const list = (values) => `(${values.slice(0, 4).map((v) => number(v)).join(", ")}${values.length > 4 ? ", …" : ""})`;

const NAMES = { pointmass: "point mass", "windy-pointmass": "point mass in the wind", "projected-pointmass": "point mass seen through a random map" };

export const who = ({ env }) => NAMES[env] ?? env;

export function goalText({ meaning }, goals, z) {
  if (goals.kind === "discrete") return `skill ${z}`;
  const values = goals.show(z);
  if (meaning === "place") return `${values.length > 1 ? list(values) : number(values[0])} m`;
  if (meaning === "velocity") return `${values.length > 1 ? list(values) : number(values[0])} m/s`;
  return list(values);
}

// The one sentence that says what to do.
export function invitation({ meaning, world }, goals) {
  if (goals.kind === "discrete") return "Choose a skill in the panel.";
  if (meaning === "place") return world.kind === "body" ? "Click on the ground: it goes there." : "Click in the arena: it goes there.";
  if (meaning === "velocity") return `Choose a velocity, or click on the ground: it goes there.`;
  const where = world.kind === "body" ? "on the ground" : "in the arena";
  if (world.place.length) return `Choose z in the panel, or click ${where} where it should go.`;
  return goals.dim === 2 ? "Drag the dot: each point of the pad is another behaviour." : "Move the sliders: each z is another behaviour.";
}

export function pickerText({ meaning, world }, goals, hasPosterior) {
  const seen = { discrete: "How full a button is shows q(skill | state)." };
  const ring = "Green is the goal; the orange mark is the goal that q infers from the state.";
  const what = {
    latent: "A latent goal z, whose meaning was learned in training.",
    place: `A place ${world.kind === "body" ? "on the ground" : "in the arena"}, in metres.`,
    velocity: `The velocity asked for, in m/s; right is forward${goals.dim > 1 ? ", up is to the left" : ""}.`,
    state: "The state to be reached.",
  }[meaning];
  if (goals.kind === "discrete") return hasPosterior ? seen.discrete : "";
  return [what, hasPosterior ? ring : ""].join(" ");
}

export function opinionText({ best, unbounded }, { fixed }) {
  if (unbounded) return "log q − log p = ⟨φ(s′) − φ(s), z⟩: how far this step moved φ in the direction z. Higher is better.";
  const top = best === undefined ? "" : `, ${number(best)} the best`;
  const far = fixed ? " This q is fixed: far from the goal it is well below 0." : "";
  return `log q(z|s) − log p(z): how well q recognises the goal pursued. 0 is chance${top}; higher is better.${far}`;
}

// The name of a policy that comes with the package, and what it is.
export const heading = (run) => [run.name, run.method, who(run)].filter(Boolean).join(" · ");

// What the marks on the ground and the colours of the arena say; nothing where there are none.
export function legend({ world, meaning, sees }, goals, hasPosterior) {
  if (world.kind === "body") {
    const marks = ["The orange arrow on the ground is the robot's velocity, as long as its way in a second"];
    if (meaning === "velocity") marks.push("the green arrow the velocity asked for");
    if (meaning === "velocity" || world.place.length) marks.push("a green ring the place to go to");
    return `${marks.join("; ")}.`;
  }
  if (world.kind !== "pointmass" || world.place.length < 2 || !hasPosterior || sees !== "state") return "";
  if (goals.kind === "discrete") return "In the arena: the most likely skill at each place; the stronger the colour, the more certain is q.";
  const sigma = meaning === "latent" ? "" : " The dashed ellipse is one σ of q.";
  return `In the arena: the greener a place, the higher q(goal | place).${sigma}`;
}
