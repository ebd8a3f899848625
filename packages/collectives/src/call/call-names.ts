/** The length of the text by which a rank tells the others what its call is, if their calls differ. */
export const NAME_BYTES = 512;

/** How long ranks wait for each other's texts before they report the difference without them. */
export const NAMES_MS = 1000;

/** The beginning of a text in NAME_BYTES bytes, and then zeros. */
export function encodeName(text: string): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(NAME_BYTES);
  new TextEncoder().encodeInto(text, bytes);
  return bytes;
}

/** The text of encodeName, also where a foreign peer has sent anything else. */
export function decodeName(bytes: Uint8Array): string {
  const end = bytes.indexOf(0);
  const text = new TextDecoder().decode(bytes.slice(0, end < 0 ? bytes.length : end));
  return text.replace(/\p{Cc}/gu, ' ');
}
