/** The kinds of objects that can be members of a module. */
export type MemberKind = 'module' | 'tensor';

/**
 * A property on the prototypes of modules and tensors. By it, a copy of this package recognizes the modules and tensors
 * of another copy.
 */
const brand: unique symbol = Symbol.for('@shardwise/core member');

/** The values of the brand in this copy of the package. */
const own = { module: { kind: 'module' }, tensor: { kind: 'tensor' } } as const;

export function brandMember(prototype: object, kind: MemberKind): void {
  Object.defineProperty(prototype, brand, { value: own[kind] });
}

/**
 * The kind of member that an object is. Null for other objects, and `foreign` for a member of another copy of this
 * package.
 */
export function memberKindOf(value: object): MemberKind | 'foreign' | null {
  if (!(brand in value)) return null;
  if (value[brand] === own.module) return 'module';
  return value[brand] === own.tensor ? 'tensor' : 'foreign';
}
