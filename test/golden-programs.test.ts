import { cpu } from '@shardwise/backend-cpu';
import { wasm } from '@shardwise/backend-cpu/wasm';
import { interpreter } from '@shardwise/testing';
import { describePrograms } from './golden/describe-programs.ts';

describePrograms('the CPU backend', () => cpu());
describePrograms('WebAssembly', () => wasm());
describePrograms('the interpreter', interpreter);
