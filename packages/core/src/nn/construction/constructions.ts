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

/** Returns the members that are found in an object. It may throw for an object that is not complete. */
type MembersOf = (object: object) => readonly object[];

/** A module whose constructor is running, as far as is known. */
interface Running {
  readonly object: object;
  /** Whether its class has `#private` names. */
  readonly hides: boolean;
  readonly call: ConstructorCall;
  readonly membersOf: MembersOf;
  /**
   * Objects that were constructed meanwhile and not yet found as members, in order, each with the object that made it.
   */
  readonly made: Map<object, object>;
}

type Made = readonly [made: object, maker: object];

interface Missing {
  readonly name: string;
  readonly object: WeakRef<object>;
}

/**
 * Tracks which modules, parameters and buffers the constructor of a module has made and keeps where they are not found
 * as members. JavaScript tells when the constructor of a base class runs, but not when that of the subclass has ended,
 * so this class looks at the stack. An object that was once found as a member never counts as missing, even if it is
 * replaced later.
 */
class Constructions {
  /**
   * The constructors that are running, innermost last. Entries stay until the next object is constructed, or until the
   * current job ends.
   */
  readonly #running: Running[] = [];
  readonly #missing = new WeakMap<object, readonly Missing[]>();

  /** The constructor of `base` must call this when an object of class `type` is constructed. */
  begin(
    object: object,
    { base, type, membersOf }: { base: AnyConstructor; type: AnyConstructor; membersOf: MembersOf },
  ): void {
    if (isTemporary()) return;
    const { call, around } = constructorCall(callFrames(base), base, type);
    const forThis = this.#endOthers(around, call);
    this.#add(object);
    // A class without a constructor of its own makes nothing in it.
    if (call === undefined) return;
    if (this.#running.length === 0) queueMicrotask(() => this.#endAll());
    const hides = hasPrivateNames(base, type);
    this.#running.push({ object, hides, call, membersOf, made: new Map(forThis) });
  }

  /** The constructor of a parameter or buffer must call this. Usually, only a `#private` field hides such a tensor. */
  note(object: object): void {
    if (isTemporary() || !this.#running.some(({ hides }) => hides)) return;
    this.#endOthers(callFrames(), undefined);
    this.#add(object);
  }

  /**
   * The class names of the objects that the constructor of `object` has made and that are not found as members. The
   * list is empty before the constructor has ended.
   */
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

  /** Records that the innermost running constructor has made `object`. */
  #add(object: object): void {
    const outer = this.#running.at(-1);
    if (outer === undefined) return;
    this.#find(outer, Object.values(outer.object));
    outer.made.set(object, outer.object);
  }

  /** Ends the entries whose calls are not among `frames`. Returns the objects that may have been made for `next`. */
  #endOthers(frames: readonly CallFrame[], next: ConstructorCall | undefined): readonly Made[] {
    const early: Made[] = [];
    for (;;) {
      const last = this.#running.at(-1);
      if (last === undefined || isRunning(last.call, frames)) return early;
      this.#running.pop();
      const lost = lostOf(last);
      // In a loop, an object that is made before super() looks as if the previous constructor had made it.
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

  /** Removes objects that are found in fields, and everything below them, from the list. */
  #find({ made, membersOf }: Running, fields: readonly unknown[]): void {
    const own = [...made.keys()].filter((each) => fields.includes(each));
    if (own.length === 0) return;
    for (const each of reachable(own, membersOf)) made.delete(each);
  }
}

/** The objects that a constructor has made and that are not found as members. */
function lostOf({ object, hides, membersOf, made }: Running): readonly Made[] {
  if (made.size === 0) return [];
  const members = reachable([object], membersOf);
  const lost = [...made].filter(([each]) => !members.has(each));
  const [last] = [...made.keys()].slice(-1);
  // A member is found when the next object is made. None was made after the last one, so it may have been in a field
  // and been replaced since. Unless the class has private fields, it counts as replaced.
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

/** Returns no members for an incomplete object, such as one whose constructor has thrown. */
function tryMembersOf(object: object, membersOf: MembersOf): readonly object[] {
  try {
    return membersOf(object);
  } catch {
    return [];
  }
}

/** The constructors that are running in this thread. */
export const constructions: Constructions = new Constructions();

/**
 * Makes modules only temporarily, for example to take their initial values. Modules that `body` constructs need not be
 * members of the module whose constructor calls this. Throws ConfigError for a body that returns a promise.
 */
export function constructTemporary<T>(body: () => T): T {
  return within('constructTemporary', { isTemporary: true }, body);
}

function isTemporary(): boolean {
  return currentScope().isTemporary;
}
