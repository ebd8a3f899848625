import { observeGraph } from '@shardwise/core/extend';
import { elementCount } from '@shardwise/core/base';

/** Calls a function with the shape and the number of elements of each value that runs compute, until it is told to stop. */
export function observeValues(
  onValue: (shape: readonly number[], elements: number) => void,
): () => void {
  return observeGraph({
    gradient() {},
    backward() {},
    remade() {},
    update() {},
    run(nodes) {
      for (const { shape } of nodes) onValue(shape, elementCount(shape));
    },
  });
}
