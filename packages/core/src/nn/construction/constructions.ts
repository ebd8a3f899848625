import { callFrames, type CallFrame } from './call-frames.ts';
import {
  constructorCall,
  type ConstructorCall,
  hasPrivateNames,
  isRunning,
  isSameCall,
} from './constructor-call.ts';

type AnyConstructor<T extends object> = abstract new (...inputs: never[]) => T;

/** An object whose constructor runs, as far as is known. */
interface Running<T> {
  readonly object: T;
  readonly call: ConstructorCall;
  /** What was constructed meanwhile and has not been found in its place yet, in order; and for which object. */
  readonly made: Map<T, T>;
}

interface Missing<T extends object> {
  readonly name: string;
  readonly object: WeakRef<T>;
}

/**
 * Which objects the constructor of another object has made and keeps where nobody finds them.
 * JavaScript tells when the constructor of a base class runs, but not when that of the subclass has
 * ended: so the stack is looked at. What was found in its place once is not missed, whatever becomes of
 * it.
 */
export class Constructions<T extends object> {
  readonly #base: AnyConstructor<T>;
  readonly #membersOf: (object: T) => readonly T[];
  /** Innermost last. Objects stay here until the next one is constructed, or until this job ends. */
  readonly #running: Running<T>[] = [];
  readonly #missing = new WeakMap<T, readonly Missing<T>[]>();

  /** `membersOf` may throw for an object that is not complete. */
  constructor(base: AnyConstructor<T>, membersOf: (object: T) => readonly T[]) {
    this.#base = base;
    this.#membersOf = membersOf;
  }

  /** To be called by the constructor of the base class; `type` is the class that is constructed. */
  begin(object: T, type: AnyConstructor<T>): void {
    const { call, around } = constructorCall(callFrames(this.#base), this.#base, type);
    const forThis = this.#endOthers(around, call);
    const outer = this.#running.at(-1);
    if (outer !== undefined) {
      this.#find(outer, Object.values(outer.object));
      outer.made.set(object, outer.object);
    }
    // A class without a constructor makes nothing in it.
    if (call === undefined) return;
    if (this.#running.length === 0) queueMicrotask(() => this.#endAll());
    this.#running.push({ object, call, made: new Map(forThis) });
  }

  /** The classes of what the constructor of `object` has made and nobody finds; none before it has ended. */
  missingOf(object: T): readonly string[] {
    if (this.#running.length > 0) this.#endOthers(callFrames(), undefined);
    const missing = this.#missing.get(object);
    if (missing === undefined) return [];
    const members = this.#reachable([object]);
    return missing.flatMap(({ name, object: made }) => {
      const alive = made.deref();
      return alive !== undefined && members.has(alive) ? [] : [name];
    });
  }

  /** Ends those whose calls are not among `frames`. Returns what may have been made for `next`. */
  #endOthers(
    frames: readonly CallFrame[],
    next: ConstructorCall | undefined,
  ): readonly (readonly [made: T, maker: T])[] {
    const early: (readonly [T, T])[] = [];
    for (;;) {
      const last = this.#running.at(-1);
      if (last === undefined || isRunning(last.call, frames)) return early;
      this.#running.pop();
      const lost = this.#end(last);
      // In a loop, what is made before super() looks as if it were made by the constructor before.
      if (next !== undefined && isSameCall(last.call, next)) early.push(...lost);
      else this.#miss(lost);
    }
  }

  #endAll(): void {
    for (const running of this.#running.splice(0)) this.#miss(this.#end(running));
  }

  /** What nobody finds. */
  #end({ object, made }: Running<T>): readonly (readonly [made: T, maker: T])[] {
    if (made.size === 0) return [];
    const members = this.#reachable([object]);
    const lost = [...made].filter(([each]) => !members.has(each));
    const [last] = [...made.keys()].slice(-1);
    // Nothing was made after it that would show whether it stood in a field, to be replaced since.
    const isOpen = last !== undefined && !members.has(last) && !hasPrivateNames(this.#base, object);
    if (!isOpen) return lost;
    const replaced = this.#reachable([last]);
    return lost.filter(([each]) => !replaced.has(each));
  }

  #miss(lost: Iterable<readonly [made: T, maker: T]>): void {
    for (const [made, maker] of lost) {
      const missing = { name: made.constructor.name, object: new WeakRef(made) };
      this.#missing.set(maker, [...(this.#missing.get(maker) ?? []), missing]);
    }
  }

  /** Takes what is in its place, with all below it, off the list. */
  #find({ made }: Running<T>, fields: readonly unknown[]): void {
    const own = [...made.keys()].filter((each) => fields.includes(each));
    if (own.length === 0) return;
    for (const each of this.#reachable(own)) made.delete(each);
  }

  #reachable(from: readonly T[]): ReadonlySet<T> {
    const seen = new Set(from);
    for (const object of seen) {
      for (const member of this.#tryMembersOf(object)) seen.add(member);
    }
    return seen;
  }

  /** A constructor that has thrown leaves half an object. */
  #tryMembersOf(object: T): readonly T[] {
    try {
      return this.#membersOf(object);
    } catch {
      return [];
    }
  }
}
