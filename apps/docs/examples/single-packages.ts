import { cpu } from '@shardwise/backend-cpu';
import { createGroup, createLoopbackTransports } from '@shardwise/collectives';
import { LineMesh, manualSeed, nn, optim, randn, setRank } from '@shardwise/core';
import { ddp, parallelize } from '@shardwise/strategies';

// What init() does: a group of ranks, here of one, on a device.
const [group] = createLoopbackTransports(1).map((transport) => createGroup(transport));
if (group === undefined) throw new RangeError('a world has at least one rank');
setRank({ device: await cpu(), mesh: new LineMesh('dp', group) });

manualSeed(1);
const network = new nn.Linear(4, 1);
const model = await parallelize(network, ddp());
const optimizer = new optim.SGD(network.parameters(), { lr: 0.1 });
const [x, y] = [randn([32, 4]), randn([32, 1])];
const losses: number[] = [];
for (let step = 0; step < 20; step += 1) {
  const loss = nn.functional.mseLoss(model.forward(x), y);
  optimizer.zeroGrad();
  loss.backward();
  await optimizer.step();
  losses.push(await loss.item());
}
console.log('the loss falls:', (losses.at(-1) ?? Infinity) < (losses[0] ?? 0)); // prints the loss falls: true
group.close();
