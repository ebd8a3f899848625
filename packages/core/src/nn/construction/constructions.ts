import { currentScope, within } from '../../ambient.ts';
import { type CallFrame, callFrames } from './call-frames.ts';
import {
  constructorCall,
  type ConstructorCall,
  hasPrivateNames,
  isRunning,
  isSameCall,
} from './constructor-call.ts';

type AnyConstructor = abstract new (...inputs: never[]) => object;

/** What an object holds where it is found; may throw for an object that is not complete. */
type MembersOf = (object: object) => readonly object[];

/** A module whose constructor runs, as far as is known. */
interface Running {
  readonly object: object;
  /** Whether its class has `#private` names. */
  readonly hides: boolean;
  readonly call: ConstructorCall;
  readonly membersOf: MembersOf;
  /** What was constructed meanwhile and has not been found in its place yet, in order; and for which object. */
  readonly made: Map<object, object>;
}

type Made = readonly [made: object, maker: object];

interface Missing {
  readonly name: string;
  readonly object: WeakRef<object>;
}

/**
 * Which modules, parameters and buffers the constructor of a module has made and keeps where nobody finds
 * them. JavaScript tells when the constructor of a base class runs, but not when that of the subclass has
 * ended: so the stack is looked at. What was found in its place once is not missed, whatever becomes of
 * it.
 */
class Constructions {
  /** Innermost last. Objects stay here until the next one is constructed, or until this job ends. */
  readonly #running: Running[] = [];
  readonly #missing = new WeakMap<object, readonly Missing[]>();

  /** To be called by the constructor of `base`, while one of `type` is constructed. */
  begin(
    object: object,
    { base, type, membersOf }: { base: AnyConstructor; type: AnyConstructor; membersOf: MembersOf },
  ): void {
    if (isTemporary()) return;
    const { call, around } = constructorCall(callFrames(base), base, type);
    const forThis = this.#endOthers(around, call);
    this.#add(object);
    // A class without a constructor makes nothing in it.
    if (call === undefined) return;
    if (this.#running.length === 0) queueMicrotask(() => this.#endAll());
    const hides = hasPrivateNames(base, type);
    this.#running.push({ object, hides, call, membersOf, made: new Map(forThis) });
  }

  /** To be called by the constructor of a tensor, which only a `#private` field is likely to hide. */
  note(object: object): void {
    if (isTemporary() || !this.#running.some(({ hides }) => hides)) return;
    this.#endOthers(callFrames(), undefined);
    this.#add(object);
  }

  /** The classes of what the constructor of `object` has made and nobody finds; none before it has ended. */
  missingOf(object: object, membersOf: MembersOf): readonly string[] {
    if (this.#running.length > 0) this.#endOthers(callFrames(), undefined);
    const missing = this.#missing.get(object);
    if (missing === undefined) return [];
    const members = reachable([object], membersOf);
    return missing.flatMap(({ name, object: made }) => {
      const alive = made.deref();
      return alive !== undefined && members.has(alive) ? [] : [name];
    });
  }

  /** Notes that the innermost constructor that is running has made `object`. */
  #add(object: object): void {
    const outer = this.#running.at(-1);
    if (outer === undefined) return;
    this.#find(outer, Object.values(outer.object));
    outer.made.set(object, outer.object);
  }

  /** Ends those whose calls are not among `frames`. Returns what may have been made for `next`. */
  #endOthers(frames: readonly CallFrame[], next: ConstructorCall | undefined): readonly Made[] {
    const early: Made[] = [];
    for (;;) {
      const last = this.#running.at(-1);
      if (last === undefined || isRunning(last.call, frames)) return early;
      this.#running.pop();
      const lost = lostOf(last);
      // In a loop, what is made before super() looks as if it were made by the constructor before.
      if (next !== undefined && isSameCall(last.call, next)) early.push(...lost);
      else this.#miss(lost);
    }
  }

  #endAll(): void {
    for (const running of this.#running.splice(0)) this.#miss(lostOf(running));
  }

  #miss(lost: readonly Made[]): void {
    for (const [made, maker] of lost) {
      const missing = { name: made.constructor.name, object: new WeakRef(made) };
      this.#missing.set(maker, [...(this.#missing.get(maker) ?? []), missing]);
    }
  }

  /** Takes what is in its place, with all below it, off the list. */
  #find({ made, membersOf }: Running, fields: readonly unknown[]): void {
    const own = [...made.keys()].filter((each) => fields.includes(each));
    if (own.length === 0) return;
    for (const each of reachable(own, membersOf)) made.delete(each);
  }
}

/** What a constructor has made and nobody finds. */
function lostOf({ object, hides, membersOf, made }: Running): readonly Made[] {
  if (made.size === 0) return [];
  const members = reachable([object], membersOf);
  const lost = [...made].filter(([each]) => !members.has(each));
  const [last] = [...made.keys()].slice(-1);
  // Nothing was made after it that would show whether it stood in a field, to be replaced since.
  const isOpen = last !== undefined && !members.has(last) && !hides;
  if (!isOpen) return lost;
  const replaced = reachable([last], membersOf);
  return lost.filter(([each]) => !replaced.has(each));
}

function reachable(from: readonly object[], membersOf: MembersOf): ReadonlySet<object> {
  const seen = new Set(from);
  for (const object of seen) {
    for (const member of tryMembersOf(object, membersOf)) seen.add(member);
  }
  return seen;
}

/** A constructor that has thrown leaves half an object. */
function tryMembersOf(object: object, membersOf: MembersOf): readonly object[] {
  try {
    return membersOf(object);
  } catch {
    return [];
  }
}

/** The constructors that run in this thread. */
export const constructions: Constructions = new Constructions();

/**
 * For a constructor that makes modules only temporarily, for example to take their initial values: modules that `body`
 * constructs need not be members of the module. Throws ConfigError for a body that returns a promise.
 */
export function constructTemporary<T>(body: () => T): T {
  return within('constructTemporary', { isTemporary: true }, body);
}

function isTemporary(): boolean {
  return currentScope().isTemporary;
}
