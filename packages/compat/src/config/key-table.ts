import { nearestName } from '@shardwise/core/extend';
import { ConfigError } from 'shardwise';

/** What is done with one key of another system's configuration. */
export type KeyUse =
  /** It does what it does there. */
  | 'done'
  /** It steers something that is done otherwise here, or always, and that changes no number. */
  | 'harmless'
  /** Its values, but for those that `accepts` names, ask for something that does not exist here. */
  | { readonly accepts: (value: unknown) => boolean; readonly why: string; readonly todo: string }
  | { readonly keys: KeyTable };

/** All keys of a configuration, or of a section of it. */
export type KeyTable = Readonly<Record<string, KeyUse>>;

/** The most keys that a message lists. */
const LISTED = 20;

/** Plain data, as JSON and YAML have it. */
export type Values = Readonly<Record<string, unknown>>;

/** A key that is refused, but for values that ask for nothing. */
export function refused(why: string, todo: string, ...accepted: readonly unknown[]): KeyUse {
  const texts = accepted.map((value) => JSON.stringify(value));
  return { accepts: (value) => texts.includes(JSON.stringify(value)), why, todo };
}

/** A section that is refused, unless it is empty or says `enabled: false`. */
export function refusedSection(why: string, todo: string): KeyUse {
  return { accepts: isOff, why, todo };
}

function isOff(value: unknown): boolean {
  if (!isValues(value)) return value === null || value === false;
  return value['enabled'] === false || Object.keys(value).length === 0;
}

export function isValues(value: unknown): value is Values {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/**
 * Checks that each key is in the table, and that none asks for what is refused. Returns the paths of the harmless keys. Throws
 * ConfigError with the path of the key. `from` names the configuration.
 */
export function checkKeys(from: string, table: KeyTable, values: Values): readonly string[] {
  return keysIn({ from, table }, table, values, []);
}

interface Whole {
  readonly from: string;
  readonly table: KeyTable;
}

function keysIn(
  whole: Whole,
  table: KeyTable,
  values: Values,
  above: readonly string[],
): readonly string[] {
  return Object.entries(values).flatMap(([key, value]) => {
    const names = [...above, key];
    const path = names.join('.');
    const use = Object.hasOwn(table, key) ? table[key] : undefined;
    if (use === undefined) throw unknownKey(whole, table, names);
    if (use === 'done') return [];
    if (use === 'harmless') return [path];
    if ('keys' in use) {
      if (value === null || value === undefined) return [];
      if (isValues(value)) return keysIn(whole, use.keys, value, names);
      throw new ConfigError(
        {
          asked: `${path} of ${whole.from}`,
          found: `${JSON.stringify(value)} in the place of a section`,
          todo: `Give an object with keys such as ${Object.keys(use.keys).slice(0, 3).join(', ')}`,
        },
        { path, value },
      );
    }
    if (use.accepts(value)) return [];
    const { why: found, todo } = use;
    throw new ConfigError({ asked: `${path} of ${whole.from}`, found, todo }, { path, value });
  });
}

function unknownKey(
  { from, table: root }: Whole,
  table: KeyTable,
  names: readonly string[],
): ConfigError {
  const path = names.join('.');
  const key = names.at(-1) ?? '';
  const elsewhere = pathsOf(root, []).filter((each) => each.split('.').at(-1) === key);
  const own = nearestName(key, Object.keys(table));
  const section = names.slice(0, -1).join('.');
  const place = section === '' ? 'no such key' : `no such key in ${section}`;
  const near = own === undefined ? undefined : `rite ${[...names.slice(0, -1), own].join('.')}`;
  const listed =
    Object.keys(table).length > LISTED
      ? ''
      : `. The keys there are ${Object.keys(table).join(', ')}`;
  const todo =
    elsewhere.length > 0
      ? // A whole section may be in the wrong place, and a key of a section may be misspelt.
        `Move it: it is ${elsewhere.slice(0, 3).join(', or ')}${section === '' || near === undefined ? '' : `. Or w${near}`}`
      : near === undefined
        ? `Remove it${listed}`
        : `W${near}, or remove it`;
  return new ConfigError(
    { asked: `${path} of ${from}`, found: place, todo },
    { path, nearest: own },
  );
}

/** The paths of all keys of a table. */
export function pathsOf(table: KeyTable, above: readonly string[] = []): readonly string[] {
  return Object.entries(table).flatMap(([key, use]) => {
    const names = [...above, key];
    const inside = typeof use === 'object' && 'keys' in use ? pathsOf(use.keys, names) : [];
    return [names.join('.'), ...inside];
  });
}
