/**
 * Plain data as text. Different values have different texts, also NaN, infinities and the two zeros, which JSON does
 * not distinguish.
 */
export function structureKey(value: unknown): string {
  switch (typeof value) {
    case 'number':
      return Object.is(value, -0) ? '-0' : `${value}`;
    case 'string':
      return JSON.stringify(value);
    case 'object': {
      if (value === null) return 'null';
      let text = '';
      if (Array.isArray(value)) {
        for (const item of value) text += `${structureKey(item)},`;
        return `[${text}]`;
      }
      for (const [name, field] of Object.entries(value)) text += `${name}:${structureKey(field)},`;
      return `{${text}}`;
    }
    default:
      return String(value);
  }
}
