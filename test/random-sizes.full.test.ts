import { cpu } from '@shardwise/backend-cpu';
import { wasm } from '@shardwise/backend-cpu/wasm';
import { describeRandomSizes } from './random-sizes/describe-random-sizes.ts';

describeRandomSizes(['WebAssembly', () => wasm()], ['the CPU backend', () => cpu()], 20);
