import { type AfterBackward, rankState } from '../ambient.ts';
import { checkGradientTypes } from '../autograd/check-gradient-types.ts';
import { endRecomputation, recomputing } from '../autograd/recompute.ts';
import { gradientsOfNode } from '../autograd/gradients-of-node.ts';
import { walkBackward } from '../autograd/walk.ts';
import { withoutAutocast } from '../graph/autocast.ts';
import { constantLike } from '../graph/ops/leaf.ts';
import { noGrad } from '../graph/create-node.ts';
import type { Node } from '../graph/node.ts';
import { withoutValues } from '../realize/pending/small-values.ts';

/** Runs `callback` when the current backward pass has ended. Hooks call this. */
export function queueAfterBackward(callback: AfterBackward): void {
  rankState.afterBackward.push(callback);
}

/**
 * Brings the gradients of `root` to the sinks of leaves. `gradient` is that of `root` itself; null means 1. If the pass
 * fails, its callbacks still end, so that they do not leak into the next pass.
 */
export function runBackward(root: Node, gradient: Node | null): void {
  try {
    withoutAutocast(() =>
      withoutValues(() => {
        noGrad(() =>
          walkBackward([{ output: root, gradient: gradient ?? constantLike(root, 1) }], {
            needs: (node) => node.requiresGrad,
            isLeaf: (node) => node.sink !== null || node.op === 'input' || node.op === 'assign',
            onStart: (leaves) => {
              for (const leaf of leaves) leaf.sink?.expect?.(gradient === null ? root : null);
            },
            gradientsOf: recomputing(gradientsOfNode),
            onLeaf: (leaf, gradient) => {
              if (gradient === null) return;
              checkGradientTypes(leaf, gradient);
              leaf.sink?.accumulate(gradient);
            },
          }),
        );
        const { afterBackward } = rankState;
        while (afterBackward.length > 0) afterBackward.shift()?.(true);
      }),
    );
  } finally {
    for (const callback of rankState.afterBackward.splice(0)) callback(false);
    endRecomputation();
  }
}
