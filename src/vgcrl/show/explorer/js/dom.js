// Elements of the page. Text is set as text, never as HTML.
export function element(tag, fields = {}, ...children) {
  const made = Object.assign(document.createElement(tag), fields);
  made.append(...children);
  return made;
}

export const byId = (id) => document.getElementById(id);
