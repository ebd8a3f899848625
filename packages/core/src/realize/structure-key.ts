/**
 * Plain data as text, a different one for any two values that differ: also for NaN, infinities and the two
 * zeros, which JSON cannot tell apart.
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
