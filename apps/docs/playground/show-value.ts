const MOST_ITEMS = 100;
const MOST_DEPTH = 3;

/**
 * Formats a value like Node's console, but shorter. A value with a text of its own, such as a tensor, is shown by this
 * text.
 */
export function showValue(value: unknown, depth = 0): string {
  if (typeof value === 'string') return depth === 0 ? value : `'${value}'`;
  if (typeof value === 'bigint') return `${value}n`;
  if (typeof value === 'function') return `[Function: ${value.name || '(anonymous)'}]`;
  if (typeof value !== 'object' || value === null) return String(value);
  if (value instanceof Error) return depth === 0 ? (value.stack ?? String(value)) : String(value);
  if (ArrayBuffer.isView(value) && !(value instanceof DataView)) {
    const items = Array.from(value as unknown as ArrayLike<number | bigint>);
    return `${value.constructor.name}(${items.length}) ${list(items, depth)}`;
  }
  if (Array.isArray(value)) return list(value, depth);
  if (value instanceof Map) {
    const entries = [...value].map(
      ([key, each]) => `${inner(key, depth)} => ${inner(each, depth)}`,
    );
    return `Map(${value.size}) ${braces('{', entries, '}')}`;
  }
  if (value instanceof Set) {
    return `Set(${value.size}) ${braces(
      '{',
      [...value].map((each) => inner(each, depth)),
      '}',
    )}`;
  }
  const own: unknown = Reflect.get(value, 'toString');
  if (typeof own === 'function' && own !== Object.prototype.toString) return `${own.call(value)}`;
  const entries = Object.entries(value).map(([key, each]) => `${key}: ${inner(each, depth)}`);
  const { name } = value.constructor ?? { name: 'Object' };
  return `${name === 'Object' ? '' : `${name} `}${braces('{', entries, '}')}`;
}

function inner(value: unknown, depth: number): string {
  return depth >= MOST_DEPTH ? '…' : showValue(value, depth + 1);
}

function list(items: readonly unknown[], depth: number): string {
  return braces(
    '[',
    items.slice(0, MOST_ITEMS).map((each) => inner(each, depth)),
    items.length > MOST_ITEMS ? `, … ${items.length - MOST_ITEMS} more ]` : ']',
  );
}

function braces(open: string, parts: readonly string[], close: string): string {
  if (parts.length === 0) return `${open}${close}`;
  const line = parts.join(', ');
  if (line.length <= 72 && !line.includes('\n')) return `${open} ${line} ${close}`;
  return `${open}\n  ${parts.join(',\n').replaceAll('\n', '\n  ')}\n${close}`;
}
