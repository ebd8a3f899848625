import { wasm } from '@shardwise/backend-cpu/wasm';
import { describePrograms } from './golden/describe-programs.ts';

// The quick test has the CPU backend and the interpreter.
describePrograms('WebAssembly', () => wasm());
