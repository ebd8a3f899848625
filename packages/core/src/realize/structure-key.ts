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
      if (Array.isArray(value)) return `[${value.map(structureKey).join(',')}]`;
      const fields = Object.entries(value).map(([name, field]) => `${name}:${structureKey(field)}`);
      return `{${fields.join(',')}}`;
    }
    default:
      return String(value);
  }
}
