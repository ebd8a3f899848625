import { dist } from 'shardwise';

// Eight ranks form groups of two, which split layers. The four groups divide the batch.
const order = dist.meshOrder('tp-dp', { tp: 2, dp: 4 });
const ranks = new dist.MeshRanks(order);
console.log(ranks.groups('tp')); // prints [ [ 0, 1 ], [ 2, 3 ], [ 4, 5 ], [ 6, 7 ] ]

const axes = [
  { name: 'dp', size: 4 },
  { name: 'tp', size: 2 },
];
console.log(dist.layout.visualizeSharding(dist.layout.layoutOf(['dp', 'tp']), [8, 6], axes));
// prints dim 0: 0-1  rank 0

const from = dist.layout.layoutOf(['dp', 'tp']);
const to = dist.layout.layoutOf(['dp', null]);
console.log(
  dist.layout.formatRedistribution(dist.layout.planRedistribution(from, to, [8, 6], axes)),
);
// prints allGather tp
