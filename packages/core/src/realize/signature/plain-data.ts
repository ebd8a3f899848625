/**
 * Whether two pieces of plain data are the same. Numbers are compared by `Object.is`, also NaN and the two zeros, lists
 * item by item, and objects field by field. Nothing is allocated, because steps compare thousands of them.
 */
export function sameData(a: unknown, b: unknown): boolean {
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) {
    return Object.is(a, b);
  }
  if (a === b) return true;
  if (Array.isArray(a) || Array.isArray(b)) {
    return Array.isArray(a) && Array.isArray(b) && sameItems(a, b);
  }
  const [fields, others] = [fieldsOf(a), fieldsOf(b)];
  let count = 0;
  for (const name in fields) {
    if (!(name in others) || !sameData(fields[name], others[name])) return false;
    count++;
  }
  for (const _ in others) count--;
  return count === 0;
}

function sameItems(a: readonly unknown[], b: readonly unknown[]): boolean {
  if (a.length !== b.length) return false;
  for (let at = 0; at < a.length; at++) if (!sameData(a[at], b[at])) return false;
  return true;
}

/** A 32-bit hash. Equal data have equal hashes, whatever the order of fields. */
export function hashOfData(data: unknown): number {
  switch (typeof data) {
    case 'number':
      return hashOfNumber(data);
    case 'string':
      return hashOfText(data);
    case 'object': {
      if (data === null) return 1;
      if (Array.isArray(data)) return hashOfItems(data);
      const fields = fieldsOf(data);
      let hash = 2;
      // The hashes of fields are added, so that their order does not matter.
      for (const name in fields) {
        hash = (hash + mixed(hashOfText(name), hashOfData(fields[name]))) | 0;
      }
      return hash;
    }
    default:
      return hashOfText(String(data));
  }
}

function hashOfItems(items: readonly unknown[]): number {
  let hash = items.length;
  for (const item of items) hash = mixed(hash, hashOfData(item));
  return hash;
}

const wideNumber = new Float64Array(1);
const halves = new Int32Array(wideNumber.buffer);

function hashOfNumber(number: number): number {
  if ((number | 0) === number) return mixed(3, number);
  // All bit patterns of NaN are the same number.
  if (Number.isNaN(number)) return 4;
  wideNumber[0] = number;
  return mixed(mixed(5, halves[0] ?? 0), halves[1] ?? 0);
}

function hashOfText(text: string): number {
  let hash = text.length;
  for (let at = 0; at < text.length; at++) hash = mixed(hash, text.charCodeAt(at));
  return hash;
}

/** Mixes one more word into a hash. */
export function mixed(hash: number, word: number): number {
  const product = Math.imul(hash ^ word, 0x9e3779b1);
  return product ^ (product >>> 15);
}

/** The fields of an object, to be read by any name. */
export function fieldsOf(data: object): Readonly<Record<string, unknown>> {
  return data as Readonly<Record<string, unknown>>;
}
