import { conformanceCases } from './conformance.ts';
import type { ConformanceCases } from './conformance-case.ts';
import { pointToPointCases } from './point-to-point.ts';
import { subGroupCases } from './sub-groups.ts';

/** What a group of that size must do: one rank alone has nobody to send to. */
export function contractCases(size: number): ConformanceCases {
  const cases = { ...conformanceCases, ...subGroupCases };
  return size > 1 ? { ...cases, ...pointToPointCases } : cases;
}
