/**
 * Pre-trains a small RoBERTa on text files, on as many ranks as it is started with, each of which has the whole model:
 *
 *   shardwise run --nproc 2 examples/hello-shardwise/train.ts
 *
 * train-zero.ts is the same program with one other line.
 */
import { dist } from 'shardwise';
import { pretrain } from './pretrain.ts';

await pretrain(dist.ddp());
