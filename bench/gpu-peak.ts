const THREADS = 256;
const GROUPS = 2048;
/** The number of sums of a thread that do not wait for each other. */
const SUMS = 16;
const LANES = 4;
const RUNS = 5;
/** The least duration of a run, so that the time to start it does not count. */
const LEAST_MS = 50;
const LEAST_STEPS = 16;

/** The two ways to write a multiply-add. Which one is faster depends on the driver. */
const forms = {
  fma: (sum: string) => `${sum} = fma(${sum}, factor, term);`,
  'multiply and add': (sum: string) => `${sum} = ${sum} * factor + term;`,
} as const;

/**
 * Measures GFLOP/s of multiply-adds in registers alone, on the first device of the host. Returns the faster form and
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

async function measure(device: GPUDevice, write: (sum: string) => string): Promise<number> {
  const sums = Array.from({ length: SUMS }, (_, index) => `s${index}`);
  const code = `
    @group(0) @binding(0) var<storage, read_write> result: array<vec4<f32>>;
    override steps: u32;
    @compute @workgroup_size(${THREADS})
    fn main(@builtin(global_invocation_id) id: vec3<u32>) {
      let factor = result[0];
      let term = result[1];
      ${sums.map((sum, index) => `var ${sum} = factor * ${index}.0 + f32(id.x);`).join('\n')}
      for (var step = 0u; step < steps; step++) {
        ${sums.map(write).join('\n')}
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
