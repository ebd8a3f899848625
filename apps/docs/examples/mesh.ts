import { MeshRanks, meshOrder } from '@shardwise/collectives';
import {
  formatRedistribution,
  layoutOf,
  planRedistribution,
  visualizeSharding,
} from '@shardwise/strategies';

// Eight ranks form groups of two, which split layers. The four groups divide the batch.
const order = meshOrder('tp-dp', { tp: 2, dp: 4 });
const ranks = new MeshRanks(order);
console.log(ranks.groups('tp')); // prints [ [ 0, 1 ], [ 2, 3 ], [ 4, 5 ], [ 6, 7 ] ]

const axes = [
  { name: 'dp', size: 4 },
  { name: 'tp', size: 2 },
];
console.log(visualizeSharding(layoutOf(['dp', 'tp']), [8, 6], axes));
// prints dim 0: 0-1  rank 0

const from = layoutOf(['dp', 'tp']);
const to = layoutOf(['dp', null]);
console.log(formatRedistribution(planRedistribution(from, to, [8, 6], axes)));
// prints allGather tp
