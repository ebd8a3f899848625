/** What may be a member of a module. */
export type MemberKind = 'module' | 'tensor';

/**
 * A property on the prototypes of modules and tensors, by which copies of this package recognise each
 * other's.
 */
const brand: unique symbol = Symbol.for('@shardwise/core member');

/** This copy. */
const own = { module: { kind: 'module' }, tensor: { kind: 'tensor' } } as const;

export function brandMember(prototype: object, kind: MemberKind): void {
  Object.defineProperty(prototype, brand, { value: own[kind] });
}

/**
 * Which kind of member an object is: null for other objects, `foreign` for a member of another copy of this
 * package.
 */
export function memberKindOf(value: object): MemberKind | 'foreign' | null {
  if (!(brand in value)) return null;
  if (value[brand] === own.module) return 'module';
  return value[brand] === own.tensor ? 'tensor' : 'foreign';
}
