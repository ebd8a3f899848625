import { interpreter } from '@shardwise/testing';
import { setRank, tensor } from '@shardwise/core';

// The reference interpreter is a backend, too: slow, exact, and short to read.
const device = interpreter();
setRank({ device });
console.log(await tensor([1, 2, 3]).square().sum().item()); // prints 14
console.log(device.name, device.limits.native.size); // prints interpreter 0
