import {
  ConfigError,
  currentSession,
  type Node,
  type ProcessGroup,
  requireTensors,
  type Tensor,
} from '@shardwise/core/extend';
import { receiveBytes, sendValue } from './message-bytes.ts';
import { tagOf } from './message.ts';

/** The only rank of a group that has the value of a node. */
interface Holder {
  readonly group: ProcessGroup;
  readonly rank: number;
}

const holders = new WeakMap<Node, Holder>();

/** Remembers which rank has an output. */
export function setHolder(node: Node, holder: Holder): void {
  holders.set(node, holder);
}

/**
 * Gives an output of a pipeline, which one rank has, to all ranks. It is a collective. Returns the output,
 * which can be read when the promise has resolved. Throws ConfigError for a tensor that is not an output of a
 * pipeline.
 */
export async function onEveryRank(output: Tensor): Promise<Tensor> {
  requireTensors('onEveryRank', { output });
  const { node } = output;
  const holder = holders.get(node);
  if (holder === undefined) {
    throw new ConfigError(
      {
        asked: `onEveryRank of a tensor of shape [${output.shape.join(', ')}]`,
        found: 'a tensor that is not an output of a pipeline',
        todo: "Give it the result of the model's forward() inside noGrad(), before you compute with it",
      },
      { shape: output.shape },
    );
  }
  const { group, rank } = holder;
  const tag = tagOf('result', 0);
  currentSession().enqueue(async () => {
    if (group.rank !== rank) {
      node.value = { kind: 'host', bytes: await receiveBytes({ node, peer: rank, tag }, group) };
      return;
    }
    const others = Array.from({ length: group.size }, (_, peer) => peer).filter(
      (peer) => peer !== rank,
    );
    await Promise.all(others.map((peer) => sendValue({ node, peer, tag }, group)));
  });
  await currentSession().realize([]);
  holders.delete(node);
  return output;
}
