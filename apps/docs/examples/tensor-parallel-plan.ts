import { dist } from 'shardwise';

const parameters = [
  { name: 'up.weight', shape: [256, 64], dtype: 'f32', requiresGrad: true },
  { name: 'down.weight', shape: [64, 256], dtype: 'f32', requiresGrad: true },
] as const;
const styles = { up: dist.styles.colwiseParallel(), down: dist.styles.rowwiseParallel() };
const strategy = dist.tensorParallel(styles, { tokens: 32 });
console.log(dist.explain(strategy.plan({ parameters }, [{ name: 'tp', size: 2 }])));
// prints up.weight    f32    [256, 64]  shard(0: tp)
// prints down.weight  f32    [64, 256]  shard(1: tp)
// prints partial to invariant    tp    allReduce
