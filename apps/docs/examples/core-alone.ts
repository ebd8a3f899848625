import { cpu } from '@shardwise/backend-cpu';
import { setRank, tensor } from '@shardwise/core';

setRank({ device: await cpu() });
const x = tensor([1, 2, 3]).requiresGrad_();
x.square().sum().backward();
console.log(await x.grad?.data()); // prints 2, 4, 6
