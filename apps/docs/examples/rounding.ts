import { init, ones, zeros } from 'shardwise';

const context = await init();
const [x, y] = [ones([1, 1000]), ones([1000, 1])];
console.log(await x.matmul(y).item()); // prints 1000

// The operands are bf16, the sums f32, and only the result is rounded.
const product = x.to('bf16').matmul(y.to('bf16'));
console.log(product.dtype, await product.item()); // prints bf16 1000

// Here each sum is rounded to bf16, which has 8 bits, so 256 + 1 is 256.
const one = ones([]).to('bf16');
let sum = zeros([]).to('bf16');
for (let count = 0; count < 1000; count += 1) sum = sum.add(one);
console.log(await sum.item()); // prints 256
await context.close();
