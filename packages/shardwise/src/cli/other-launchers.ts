import { readFileSync } from 'node:fs';
import { hostname, networkInterfaces } from 'node:os';
import { ConfigError } from '@shardwise/core/spec';
import { type HostSlots, parseHostFile, placeOf, selectHosts } from './host-file.ts';
import { granted, joint, ownNames, refused, refusedFamilies, synonyms } from './other-options.ts';

/** Our options that take no value. */
const switches: ReadonlySet<string> = new Set([
  '--no-report',
  '--plain',
  '--help',
  '--version',
  '-h',
  '-V',
]);

/** What options of other launchers ask the machine. */
export interface LauncherMachine {
  readonly readFile: (path: string) => string;
  /** The names and addresses of this host. */
  readonly names: () => readonly string[];
}

const thisMachine: LauncherMachine = {
  readFile: (path) => readFileSync(path, 'utf8'),
  names: () => {
    const name = hostname();
    const addresses = Object.values(networkInterfaces()).flatMap((each) => each ?? []);
    return [
      ...new Set([name, name.split('.', 1)[0] ?? name, ...addresses.map(({ address }) => address)]),
    ];
  },
};

/**
 * Gives the options of other launchers, before the script, the names of ours. Arguments of the script stay as they are.
 * `argv` has the form of process.argv. Throws ConfigError for options that mean something else here, and for those that
 * contradict each other.
 */
export function withOwnNames(
  argv: readonly string[],
  machine: LauncherMachine = thisMachine,
): readonly string[] {
  if (argv[2] === 'config') {
    return argv.map((word) => word.replace(/^--config_file(?==|$)/, '--config-file'));
  }
  if (argv[2] !== 'run') return argv;
  const words: string[] = [];
  const others = new Map<string, string>();
  let index = 3;
  for (; index < argv.length; index++) {
    const word = argv[index] ?? '';
    if (!word.startsWith('-') || word === '--') break;
    const [given = word] = word.split('=', 1);
    const name = given.replaceAll('_', '-');
    const reason = reasonAgainst(name);
    if (reason !== undefined) throw refusedError(given, reason);
    if (granted.has(name)) continue;
    if (name === '--standalone') {
      others.set(name, '');
      continue;
    }
    const hasValue = given !== word || switches.has(word) || /^-n\d/.test(word);
    const next = hasValue ? [] : argv.slice(index + 1, index + 2);
    if (!hasValue) index++;
    const together = Object.hasOwn(joint, name) ? joint[name] : undefined;
    if (together !== undefined) {
      const value = given === word ? next[0] : word.slice(given.length + 1);
      if (value === undefined) throw refusedError(given, 'it needs a value');
      others.set(together, value);
      continue;
    }
    const synonym = Object.hasOwn(synonyms, name) ? synonyms[name] : undefined;
    const own = synonym ?? (ownNames.has(name) ? name : given);
    words.push(`${own}${word.slice(given.length)}`, ...next);
  }
  return [
    ...argv.slice(0, 3),
    ...words,
    ...jointOptions(words, others, machine),
    ...argv.slice(index),
  ];
}

/** Why an option is not taken. Undefined: it is, or is none of other launchers. */
function reasonAgainst(name: string): string | undefined {
  if (Object.hasOwn(refused, name)) return refused[name];
  return refusedFamilies.find(([prefix]) => name.startsWith(prefix))?.[1];
}

/** Returns our options that follow from several of other launchers. What `words` say already is not added. */
function jointOptions(
  words: readonly string[],
  others: ReadonlyMap<string, string>,
  machine: LauncherMachine,
): readonly string[] {
  const valueOf = (name: string): string | undefined => {
    const at = words.findLastIndex((word) => word === name || word.startsWith(`${name}=`));
    return words[at] === name ? words[at + 1] : words[at]?.slice(name.length + 1);
  };
  const found = new Map<string, string>();
  const processes = others.get('--num-processes');
  const machines = valueOf('--nnodes');
  if (others.has('--standalone') && machines !== undefined && !/^1(?::1)?$/.test(machines)) {
    throw refusedError('--standalone', `it means one host, but --nnodes is ${machines}`);
  }
  const backend = others.get('--rdzv-backend');
  // Both have the first host serve a store, as ours does.
  if (backend !== undefined && backend !== 'c10d' && backend !== 'static') {
    throw refusedError(
      `--rdzv-backend ${backend}`,
      'the first host serves the store; leave it out',
    );
  }
  if (processes !== undefined) found.set('--nproc', ranksPerHost(processes, machines ?? '1'));
  const address = others.get('--main-process-ip') ?? others.get('--master-addr');
  const port = others.get('--main-process-port') ?? others.get('--master-port');
  const ofFile = hostFileOptions(others, valueOf('--node-rank'), machines, machine);
  for (const [name, value] of ofFile) {
    found.set(name, value);
  }
  const meeting = address ?? found.get('--rdzv');
  // A single host meets nobody, so its port is not needed.
  if (meeting !== undefined) {
    const host = meeting.includes(':') ? `[${meeting}]` : meeting;
    found.set('--rdzv', port === undefined ? host : `${host}:${port}`);
  }
  const hasShortNproc = words.some((word) => /^-n\d*$/.test(word));
  return [...found].flatMap(([name, value]) => {
    const isSaid = valueOf(name) !== undefined || (name === '--nproc' && hasShortNproc);
    return isSaid ? [] : [name, value];
  });
}

/** accelerate counts the ranks of all machines, and each machine has equally many. */
function ranksPerHost(processes: string, machines: string): string {
  const perHost = Number(processes) / Number(machines);
  if (Number.isInteger(perHost) && perHost > 0) return String(perHost);
  throw new ConfigError(
    {
      asked: `--num_processes ${processes} on ${machines} machines`,
      found: 'it counts the ranks of all machines, which have equally many',
      todo: 'Give a multiple of the number of machines, or the ranks of each host with --nproc',
    },
    { processes, machines },
  );
}

function hostFileOptions(
  others: ReadonlyMap<string, string>,
  nodeRank: string | undefined,
  count: string | undefined,
  { readFile, names }: LauncherMachine,
): readonly (readonly [string, string])[] {
  const path = others.get('--hostfile');
  const include = others.get('--include');
  const exclude = others.get('--exclude');
  if (include !== undefined && exclude !== undefined) {
    throw refusedError('--include with --exclude', 'give one of the two');
  }
  if (path === undefined) {
    if (include === undefined && exclude === undefined) return [];
    throw refusedError(include === undefined ? '--exclude' : '--include', 'it needs --hostfile');
  }
  const all = parseHostFile(hostFileText(path, readFile));
  const chosen =
    include !== undefined
      ? selectHosts(all, '--include', include)
      : exclude !== undefined
        ? selectHosts(all, '--exclude', exclude)
        : all;
  const hosts = firstHosts(chosen, count);
  const place = nodeRank === undefined ? placeOf(hosts, names()) : Number(nodeRank);
  const own = hosts[place];
  if (own === undefined) {
    throw refusedError(
      `--node-rank ${nodeRank}`,
      `--hostfile has ${hosts.length} hosts, which count from 0`,
    );
  }
  const nproc = ['--nproc', String(own.slots.length)] as const;
  if (hosts.length === 1) return [nproc];
  return [
    ['--nnodes', String(hosts.length)],
    nproc,
    ['--node-rank', String(place)],
    ['--rdzv', hosts[0]?.name ?? ''],
  ];
}

/** With a number of hosts, these are the first ones of the file. */
function firstHosts(hosts: readonly HostSlots[], count: string | undefined): readonly HostSlots[] {
  if (count === undefined || !/^\d+$/.test(count)) return hosts;
  if (Number(count) <= hosts.length) return hosts.slice(0, Number(count));
  throw refusedError(`${count} hosts`, `--hostfile has ${hosts.length}`);
}

function hostFileText(path: string, readFile: LauncherMachine['readFile']): string {
  try {
    return readFile(path);
  } catch (cause) {
    const found = cause instanceof Error ? cause.message : String(cause);
    const todo = 'Give the path of a file with lines such as worker-1 slots=4';
    throw new ConfigError({ asked: `--hostfile ${path}`, found, todo }, { path }, { cause });
  }
}

function refusedError(option: string, reason: string): ConfigError {
  return new ConfigError(
    {
      asked: `shardwise run with ${option}`,
      found: `this option of other launchers can't be taken: ${reason}`,
      todo: 'See `shardwise run --help`',
    },
    { option },
  );
}
