/** A short text for any value, for messages. */
export function describeValue(value: unknown): string {
  if (typeof value === 'string') {
    return value.length > 40 ? `'${value.slice(0, 40)}…'` : `'${value}'`;
  }
  if (typeof value === 'bigint') return `${value}n`;
  if (typeof value === 'function') return 'a function';
  if (typeof value === 'symbol') return 'a symbol';
  if (typeof value !== 'object' || value === null) return String(value);
  if (Array.isArray(value)) return describeArray(value);
  const { name } = value.constructor ?? Object;
  if (name === 'Object' || name === '') return 'an object';
  return `${/^[AEIOU]/.test(name) ? 'an' : 'a'} ${name}`;
}

function describeArray(array: readonly unknown[]): string {
  if (array.length === 0) return 'an empty array';
  const isShort = array.length <= 6 && array.every((item) => typeof item === 'number');
  return isShort ? `[${array.join(', ')}]` : `an array of ${array.length}`;
}
