/** Returns an element of the page. Throws TypeError if the page has none, or one of another kind. */
export function elementOf<E extends Element>(id: string, type: abstract new () => E): E {
  const element = document.getElementById(id);
  if (element instanceof type) return element;
  throw new TypeError(`the page has no ${id}`);
}

/** Writes the line that says what the page is doing. */
export function say(message: string, hasFailed = false): void {
  const status = elementOf('status', HTMLElement);
  status.textContent = message;
  status.classList.toggle('failed', hasFailed);
}

/** Returns the device that the visitor has chosen. */
export function chosenDevice(): 'auto' | 'wasm' | 'webgpu' {
  const { value } = elementOf('device', HTMLSelectElement);
  return value === 'webgpu' || value === 'wasm' ? value : 'auto';
}
