// What the page carries, gzipped in base64: data, modules and WebAssembly.
async function unpack(id) {
  const packed = document.getElementById(id).textContent;
  const bytes = Uint8Array.from(atob(packed), (c) => c.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip")));
}

export const unpackJson = async (id) => (await unpack(id)).json();

// A .js asset as a module, any other as bytes.
export async function unpackAsset(name) {
  const packed = await unpack(name);
  if (!name.endsWith(".js")) return packed.arrayBuffer();
  const url = URL.createObjectURL(new Blob([await packed.text()], { type: "text/javascript" }));
  return import(url);
}
