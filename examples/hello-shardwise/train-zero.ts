/**
 * train.ts with one other line: the ranks share out the optimizer's states and the f32 parameters (ZeRO, stage 1), and
 * compute with parameters of 16 bits:
 *
 *   shardwise run --nproc 2 examples/hello-shardwise/train-zero.ts
 */
import { dist } from 'shardwise';
import { pretrain } from './pretrain.ts';

await pretrain(dist.zero({ stage: 1, mixedPrecision: { parameterDtype: 'bf16' } }));
