import { ConfigError } from '@shardwise/core/spec';

// DeepSpeed's hostfile, and the filters --include and --exclude.

/** A host, and the numbers of the ranks that it may have. */
export interface HostSlots {
  readonly name: string;
  readonly slots: readonly number[];
}

const MAX_SLOTS = 4096;

/**
 * Parses lines such as `worker-1 slots=4`. Empty lines and those that begin with `#` say nothing. Throws ConfigError
 * that names the line for anything else, for a host that is there twice, and for a file without hosts.
 */
export function parseHostFile(text: string): readonly HostSlots[] {
  const hosts: HostSlots[] = [];
  for (const [index, whole] of text.split('\n').entries()) {
    const line = whole.trim();
    if (line === '' || line.startsWith('#')) continue;
    const [, name, digits] = /^([\w.:-]{1,255})\s+slots=(\d{1,4})(?:\s*#.*)?$/.exec(line) ?? [];
    const count = Number(digits);
    if (name === undefined || count < 1 || count > MAX_SLOTS) {
      throw fileError(
        index,
        JSON.stringify(line.slice(0, 80)),
        'Write HOST slots=COUNT in each line',
      );
    }
    if (hosts.some((host) => host.name === name)) {
      throw fileError(index, `${name} is there twice`, 'Name each host once');
    }
    hosts.push({ name, slots: Array.from({ length: count }, (_, slot) => slot) });
  }
  if (hosts.length === 0) throw fileError(0, 'no host', 'Write HOST slots=COUNT in each line');
  return hosts;
}

function fileError(index: number, found: string, todo: string): ConfigError {
  const line = index + 1;
  return new ConfigError({ asked: `Line ${line} of --hostfile`, found, todo }, { line });
}

/**
 * Returns the hosts that a filter such as `worker-1@worker-2:0,2` leaves, in the order of the file. With `include`, these
 * are the named hosts or slots, and with `exclude` the others. Throws ConfigError for hosts and slots that are not in the
 * file, and if nothing is left.
 */
export function selectHosts(
  hosts: readonly HostSlots[],
  option: '--include' | '--exclude',
  filter: string,
): readonly HostSlots[] {
  const named = new Map<string, ReadonlySet<number>>();
  for (const part of filter.split('@')) {
    const [, name = '', list] = /^([^:]+)(?::(\d{1,4}(?:,\d{1,4})*))?$/.exec(part.trim()) ?? [];
    const host = hosts.find((each) => each.name === name);
    if (host === undefined) {
      throw filterError(option, filter, `${JSON.stringify(part)} is no host of --hostfile`);
    }
    const slots = new Set(list === undefined ? host.slots : list.split(',').map(Number));
    const unknown = [...slots].find((slot) => !host.slots.includes(slot));
    if (unknown !== undefined) throw filterError(option, filter, `${name} has no slot ${unknown}`);
    if (named.has(name)) throw filterError(option, filter, `${name} is there twice`);
    named.set(name, slots);
  }
  const isIncluded = option === '--include';
  const left = hosts
    .map(({ name, slots }) => ({
      name,
      slots: slots.filter((slot) => (named.get(name)?.has(slot) ?? false) === isIncluded),
    }))
    .filter(({ slots }) => slots.length > 0);
  if (left.length === 0) throw filterError(option, filter, 'it leaves no host');
  return left;
}

function filterError(option: string, filter: string, found: string): ConfigError {
  const asked = `${option} ${filter}`;
  const todo = `Give hosts of the file, as ${option} worker-1@worker-2:0,2`;
  return new ConfigError({ asked, found, todo }, { option, filter });
}

/**
 * Returns the place of this host among those of the file. `ownNames` are its names and addresses. Throws ConfigError if
 * none of the hosts has one of them.
 */
export function placeOf(hosts: readonly HostSlots[], ownNames: readonly string[]): number {
  const place = hosts.findIndex(({ name }) => name === 'localhost' || ownNames.includes(name));
  if (place >= 0) return place;
  throw new ConfigError(
    {
      asked: `The place of this host among ${hosts.map(({ name }) => name).join(', ')}`,
      found: `it is called ${ownNames.join(', ')}`,
      todo: 'Run the command on hosts of --hostfile, or say which of them this one is with --node-rank',
    },
    { ownNames: [...ownNames] },
  );
}
