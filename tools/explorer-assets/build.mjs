// Browser assets of the explorer page, from the pinned packages beside this file: minified, gzipped, with licences.
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { build, transform } from "esbuild";

const here = fileURLToPath(new URL(".", import.meta.url));
const out = here + "../../src/vgcrl/show/explorer/assets/";
const packages = here + "node_modules/";
const put = (name, bytes) => {
  const packed = gzipSync(bytes, { level: 9 });
  packed[9] = 255; // the operating system is nobody's business: the same bytes everywhere
  writeFileSync(out + name + ".gz", packed);
  console.log(`${name}.gz ${packed.length}`);
};

const three = await build({
  entryPoints: [here + "three.js"], bundle: true, format: "esm", minify: true, write: false, legalComments: "none",
});
put("three.js", three.outputFiles[0].contents);

// The loader asks where it came from; in a page of one file it came from nowhere, and is handed its binary.
const loader = await transform(readFileSync(packages + "@mujoco/mujoco/mujoco.js", "utf8"), {
  format: "esm", minify: true, legalComments: "none", define: { "import.meta.url": '"https://localhost/mujoco.js"' },
});
put("mujoco.js", loader.code);
put("mujoco.wasm", readFileSync(packages + "@mujoco/mujoco/mujoco.wasm"));

const version = (name) => JSON.parse(readFileSync(packages + name + "/package.json", "utf8")).version;
const names = { "three.js.gz": "three", "mujoco.js.gz": "@mujoco/mujoco", "mujoco.wasm.gz": "@mujoco/mujoco" };
const versions = Object.entries(names).map(([file, name]) => [file, `${name} ${version(name)}`]);
writeFileSync(out + "versions.json", JSON.stringify(Object.fromEntries(versions), null, 2) + "\n");
writeFileSync(out + "LICENSE-three.txt", readFileSync(packages + "three/LICENSE"));
