import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { checkpoints, init, nn, zeros } from 'shardwise';

const context = await init();
const folder = await mkdtemp(join(tmpdir(), 'shardwise-'));
const model = new nn.Linear(4, 2);
await checkpoints.saveTensorFile(join(folder, 'model.safetensors'), await model.stateDict());

const other = new nn.Linear(4, 2);
await other.loadStateDict(await checkpoints.loadTensorFile(join(folder, 'model.safetensors')));
const x = zeros([1, 4]).add(1);
const difference = model.forward(x).sub(other.forward(x)).abs().max();
console.log(await difference.item()); // prints 0
await rm(folder, { recursive: true });
await context.close();
