/** What may be a member of a module. */
export type MemberKind = 'module' | 'tensor';

/** On the prototypes of modules and tensors, by which copies of this package know each other's. */
const brand: unique symbol = Symbol.for('@shardwise/core member');

/** This copy. */
const own = { module: { kind: 'module' }, tensor: { kind: 'tensor' } } as const;

export function brandMember(prototype: object, kind: MemberKind): void {
  Object.defineProperty(prototype, brand, { value: own[kind] });
}

/** Null for what is no member; `foreign` for one of another copy of this package. */
export function memberKindOf(value: object): MemberKind | 'foreign' | null {
  if (!(brand in value)) return null;
  if (value[brand] === own.module) return 'module';
  return value[brand] === own.tensor ? 'tensor' : 'foreign';
}
