import { replicated, type Strategy } from '@shardwise/core/extend';
import { explain, fsdp } from '@shardwise/strategies';

/** Shards the tables of embeddings as fsdp does, and keeps all other parameters whole. */
export function shardEmbeddings(): Strategy {
  return {
    specificationVersion: 1,
    name: 'shardEmbeddings',
    plan: (model, axes) => {
      const plan = fsdp().plan(model, axes);
      const parameters = plan.parameters.map((each) => {
        if (each.name.includes('embedding')) return each;
        const whole = replicated(each.shape);
        return { ...each, parameter: whole, gradient: whole, optimizer: whole };
      });
      return { ...plan, strategy: 'shardEmbeddings', parameters };
    },
  };
}

const parameters = [
  { name: 'embedding.weight', shape: [32000, 64], dtype: 'f32', requiresGrad: true },
  { name: 'head.weight', shape: [64, 64], dtype: 'f32', requiresGrad: true },
] as const;
console.log(explain(shardEmbeddings().plan({ parameters }, [{ name: 'dp', size: 2 }])));
// prints embedding.weight  f32    [32000, 64]  shard(0: dp)  shard(0: dp)  4096000
// prints head.weight       f32    [64, 64]     replicate     replicate     16384
