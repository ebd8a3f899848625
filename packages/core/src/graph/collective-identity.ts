import { currentScope, within } from '../ambient.ts';
import { hashOf, mixed } from '../hash.ts';
import { callPlace } from '../base/stack.ts';
import type { CallIdentity, StepSettings } from '../spec/process-group.ts';
import { CallSite } from './call-site.ts';
import { stepsOn } from './step-settings.ts';

/**
 * What a collective of the graph is. Ranks compare it when they meet, so that collectives of the same operation and
 * size are not taken for each other: a gather has the name of its parameter, a collective of a layer that of the
 * layer, and one that a program calls itself has the line of that call.
 */
class CollectiveIdentity implements CallIdentity {
  readonly hash: number;
  readonly stepsBefore: StepSettings | undefined;
  readonly #describe: () => string;

  constructor(hash: number, stepsBefore: StepSettings | undefined, describe: () => string) {
    // 0 stands for calls without identity.
    this.hash = hash >>> 0 || 1;
    this.stepsBefore = stepsBefore;
    this.#describe = describe;
  }

  describe(): string {
    return this.#describe();
  }
}

/** What a collective is that was made without a name. Its place in the program is known all the same. */
export const unnamed: CallIdentity = { hash: 1, describe: () => 'a collective of the library' };

const hashes = new Map<string, number>();
const MAX_HASHES = 100_000;

function hashOfName(name: string): number {
  const known = hashes.get(name);
  if (known !== undefined) return known;
  if (hashes.size >= MAX_HASHES) hashes.clear();
  const hash = hashOf(name);
  hashes.set(name, hash);
  return hash;
}

/** The identity of a collective over an axis that is made now. */
export function newIdentity(operation: string, axis: string): CallIdentity {
  const { collectiveName, isInLibrary, site } = currentScope();
  const steps = stepsOn(axis);
  if (typeof collectiveName === 'string') return named(collectiveName, site, steps);
  if (collectiveName !== null) return derived('the gradient of', collectiveName, steps);
  if (isInLibrary || site !== null) return named(`an ${operation} of the library`, site, steps);
  return ofCall(operation, steps);
}

function named(
  name: string,
  site: CallSite | 'none' | null,
  steps: StepSettings | undefined,
): CallIdentity {
  const own = site instanceof CallSite ? site : null;
  return new CollectiveIdentity(hashOfName(name), steps, () => withLine(name, own?.line ?? null));
}

/** The identity of a collective that the program calls. It is the place of the call. */
function ofCall(operation: string, steps: StepSettings | undefined): CallIdentity {
  const place = callPlace();
  if (place === null) return named(operation, null, steps);
  const { path, line, column } = place;
  // Hosts may have the script in different folders.
  const file = path.slice(Math.max(path.lastIndexOf('/'), path.lastIndexOf('\\')) + 1);
  const hash = mixed(mixed(hashOfName(file), line), column);
  return new CollectiveIdentity(hash, steps, () => `${operation} at ${path}:${line}:${column}`);
}

function withLine(what: string, line: string | null): string {
  return line === null ? what : `${what} at ${line}`;
}

/** The identity of a collective that is made again. */
export function identityAgain(of: CallIdentity): CallIdentity {
  return derived('again', of, of.stepsBefore);
}

/** The identity of a collective that belongs to another one, as its gradient does. */
function derived(prefix: string, of: CallIdentity, steps: StepSettings | undefined): CallIdentity {
  const hash = mixed(hashOfName(prefix), of.hash);
  return new CollectiveIdentity(hash, steps, () => `${prefix} ${of.describe()}`);
}

/** The identity of a call of a group that a function of the library makes at its place in the program. */
export function collectiveIdentity(name: string): CallIdentity {
  return named(name, null, undefined);
}

/** The identity of several collectives that travel as one message. */
export function jointIdentity(all: readonly (CallIdentity | null)[]): CallIdentity | undefined {
  const first = all.find((each) => each !== null);
  if (first === undefined || all.length === 1) return first;
  const hash = all.reduce((joint, each) => mixed(joint, each?.hash ?? 0), 0);
  return new CollectiveIdentity(
    hash,
    first.stepsBefore,
    () => `${first.describe()} and ${all.length - 1} more`,
  );
}

/** Runs the gradient rule of a collective. */
export function asGradientOf<T>(of: CallIdentity, rule: () => T): T {
  return within('a gradient', { collectiveName: of }, rule);
}

/** Collectives that `body` makes have this name in the comparison of ranks and in errors. */
export function withCollectiveName<T>(name: string, body: () => T): T {
  return within('a function of the library', { collectiveName: name }, body);
}
