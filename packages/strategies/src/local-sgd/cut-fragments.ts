import { elementCount, LayoutError, type ParameterSpec } from '@shardwise/core/extend';
import { balancedPartition } from '../pipeline-schedule/automatic/balanced-partition.ts';

/**
 * Cuts parameters into fragments of consecutive ones with about equally many elements, and returns their names. Throws
 * LayoutError for fewer parameters than fragments.
 */
export function cutFragments(
  strategy: string,
  parameters: readonly ParameterSpec[],
  count: number,
): readonly (readonly string[])[] {
  if (parameters.length < count) {
    throw new LayoutError(
      {
        asked: `${strategy} of a model in ${count} fragments`,
        found: `${parameters.length} parameters that train`,
        todo: `Use at most ${Math.max(1, parameters.length)} fragments`,
      },
      { fragments: count, parameters: parameters.length },
    );
  }
  const boundaries = balancedPartition(
    parameters.map(({ shape }) => elementCount(shape)),
    count,
  );
  const names = parameters.map(({ name }) => name);
  return Array.from({ length: count }, (_, index) =>
    names.slice(boundaries[index], boundaries[index + 1]),
  );
}
