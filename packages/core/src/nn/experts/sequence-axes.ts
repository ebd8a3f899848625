const member: unique symbol = Symbol('sequence axes');

/** A module that may balance experts by sequence. */
interface Balancing {
  readonly [member]: readonly string[] | null;
}

/**
 * Sets the mesh axes over whose ranks each sequence that a module balances by itself is spread. Null if the module does
 * not balance by sequence.
 */
export function defineSequenceAxes(module: object, axes: readonly string[] | null): void {
  Object.defineProperty(module, member, { value: axes });
}

/**
 * The axes that `defineSequenceAxes` has set for a module, or null. Code that asks this of any module does not load the
 * code of experts.
 */
export function sequenceAxesOf(module: object): readonly string[] | null {
  return isBalancing(module) ? module[member] : null;
}

function isBalancing(module: object): module is Balancing {
  return member in module;
}
