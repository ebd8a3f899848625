const THREADS = 256;
const GROUPS = 2048;
/** The number of sums of a thread that do not wait for each other. */
const SUMS = 16;
const LANES = 4;
const RUNS = 5;
/** The least duration of a run, so that the time to start it does not count. */
const LEAST_MS = 50;
const LEAST_STEPS = 16;

/**
 * Ways to write multiply-adds, each for all sums of a thread. Which one is fastest depends on the driver and on the
 * processors: one register file delivers two operands at a time, the other three.
 */
const forms: Readonly<Record<string, (sums: readonly string[]) => readonly string[]>> = {
  fma: (sums) => sums.map((sum) => `${sum} = fma(${sum}, factor, term);`),
  'multiply and add': (sums) => sums.map((sum) => `${sum} = ${sum} * factor + term;`),
  // As in a product of matrices: each sum has another pair of the operands, which change in between.
  'outer product': (sums) => [
    ...sums.map(
      (sum, index) => `${sum} += left${index >> 2}.${'xyzw'[index & 3]} * right${index & 3};`,
    ),
    ...[0, 1, 2, 3].map((index) => `left${index} = left${index}.yzwx;`),
  ],
};

/**
 * Measures GFLOP/s of multiply-adds in registers alone, on the first device of the host. Returns the fastest form and
 * its rate.
 */
export async function gpuPeak(
  gpu: GPU,
): Promise<{ readonly gigaflops: number; readonly form: string }> {
  const adapter = await gpu.requestAdapter();
  if (adapter === null) throw new Error('This host has no adapter of WebGPU');
  const device = await adapter.requestDevice();
  let best = { gigaflops: 0, form: '' };
  for (const [form, write] of Object.entries(forms)) {
    const gigaflops = await measure(device, write);
    if (gigaflops > best.gigaflops) best = { gigaflops, form };
  }
  device.destroy();
  return best;
}

async function measure(
  device: GPUDevice,
  write: (sums: readonly string[]) => readonly string[],
): Promise<number> {
  const sums = Array.from({ length: SUMS }, (_, index) => `s${index}`);
  const code = `
    @group(0) @binding(0) var<storage, read_write> result: array<vec4<f32>>;
    override steps: u32;
    @compute @workgroup_size(${THREADS})
    fn main(@builtin(global_invocation_id) id: vec3<u32>) {
      let factor = result[0];
      let term = result[1];
      ${sums.map((sum, index) => `var ${sum} = factor * ${index}.0 + f32(id.x);`).join('\n')}
      ${[0, 1, 2, 3].map((index) => `var left${index} = factor + ${index}.0; let right${index} = term + ${index}.0;`).join('\n')}
      for (var step = 0u; step < steps; step++) {
        ${write(sums).join('\n')}
      }
      let sum = ${sums.join(' + ')};
      // Never so, but the compiler does not know.
      if (sum.x == 12345.678) { result[id.x & 1u] = sum; }
    }`;
  const module = device.createShaderModule({ code });
  const storage = 0x80;
  const buffer = device.createBuffer({ size: 32, usage: storage });
  let steps = LEAST_STEPS;
  for (;;) {
    const pipeline = device.createComputePipeline({
      layout: 'auto',
      compute: { module, entryPoint: 'main', constants: { steps } },
    });
    const group = device.createBindGroup({
      layout: pipeline.getBindGroupLayout(0),
      entries: [{ binding: 0, resource: { buffer } }],
    });
    const run = async (): Promise<number> => {
      const encoder = device.createCommandEncoder();
      const pass = encoder.beginComputePass();
      pass.setPipeline(pipeline);
      pass.setBindGroup(0, group);
      pass.dispatchWorkgroups(GROUPS);
      pass.end();
      const start = performance.now();
      device.queue.submit([encoder.finish()]);
      await device.queue.onSubmittedWorkDone();
      return performance.now() - start;
    };
    await run();
    let fastestMs = await run();
    if (fastestMs < LEAST_MS) {
      steps *= 4;
      continue;
    }
    for (let index = 1; index < RUNS; index++) fastestMs = Math.min(fastestMs, await run());
    return (2 * LANES * SUMS * steps * THREADS * GROUPS) / fastestMs / 1e6;
  }
}
