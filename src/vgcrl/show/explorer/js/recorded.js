// Episodes that were recorded: frames where the environment draws itself, and curves of its observation.
import { byId, element } from "vgcrl/dom.js";
import { rows, tensor } from "vgcrl/networks.js";
import { skillColour } from "vgcrl/colours.js";

export function recorded() {
  throw new Error("not yet");
}
