import { interpreter } from '@shardwise/testing';
import { manualSeed, nn, ones, optim, setRank, type Tensor } from '@shardwise/core';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { CallSite } from '../src/graph/call-site.ts';
import { userLine } from '../src/base/stack.ts';

const ours = new URL('../src/nn/layers/linear.ts', import.meta.url);

describe('a call site', () => {
  it('is the line of this test, and not those of the package', () => {
    const site = new CallSite('embedding');
    expect(site.operation).toBe('embedding');
    expect(site.line).toMatch(/\/core\/test\/call-site\.test\.ts:\d+:\d+$/);
  });

  it('leaves the limit of stacks as it was', () => {
    const before = Error.stackTraceLimit;
    expect(new CallSite('gather').line).not.toBeNull();
    expect(Error.stackTraceLimit).toBe(before);
  });
});

describe('stacks of a step whose plan is not made yet', () => {
  const capture = vi.spyOn(Error, 'captureStackTrace');
  afterEach(() => capture.mockClear());
  beforeEach(() => {
    setRank({ device: interpreter() });
    manualSeed(0);
  });

  it('are taken of each operation of the forward pass, and of no gradient', () => {
    const loss = new nn.Linear(2, 2)
      .forward(ones([3, 2]))
      .gelu()
      .mean();
    const ofForward = capture.mock.calls.length;
    expect(ofForward).toBeGreaterThan(3);
    loss.backward();
    // Backward adds only a few nodes of its own: the initial gradient, and the sums of gradients of tensors that are
    // used several times.
    expect(capture.mock.calls.length - ofForward).toBeLessThan(4);
  });

  it('are taken of an update once, whatever the number of parameters', async () => {
    const counts: number[] = [];
    for (const layers of [1, 8]) {
      const model = new nn.Sequential(...Array.from({ length: layers }, () => new nn.Linear(2, 2)));
      const optimizer = new optim.AdamW(model.parameters());
      model
        .forward(ones([3, 2]))
        .mean()
        .backward();
      capture.mockClear();
      await optimizer.step();
      counts.push(capture.mock.calls.length);
    }
    expect(counts[1]).toBe(counts[0]);
  });

  it('are taken of a function of the library once, for all the nodes that it makes', () => {
    const [x, y] = [ones([3, 2]), ones([3, 2])];
    capture.mockClear();
    const { node } = nn.functional.smoothL1Loss(x, y);
    expect(capture).toHaveBeenCalledTimes(1);
    const sites = [node, ...node.inputs].map(({ site }) => site);
    expect(new Set(sites.map((site) => site?.operation)).size).toBeGreaterThan(1);
    for (const site of sites) expect(site?.line).toMatch(/call-site\.test\.ts/);
  });

  it('of a module of the user inside one of the library are its own', () => {
    const lines: (string | null | undefined)[] = [];
    const { stack: here = '' } = new Error('here');
    class Doubled extends nn.Linear {
      override forward(x: Tensor): Tensor {
        const doubled = super.forward(x).mul(2);
        lines.push(doubled.node.site?.line);
        return doubled;
      }
    }
    const layer = new nn.TransformerEncoderLayer(4, 2, { dimFeedforward: 4 });
    layer.linear1 = new Doubled(4, 4);
    layer.forward(ones([1, 3, 4]));
    const [line = 0] = (userLine(here) ?? '').match(/(?<=:)\d+(?=:)/)?.map(Number) ?? [];
    expect(lines.map((each) => each?.split(':').at(-2))).toEqual([String(line + 3)]);
  });

  it('of a gradient are those of the operation that it belongs to', () => {
    const { weight } = new nn.Linear(2, 2);
    const y = weight.exp();
    y.sum().backward();
    expect(y.node.site?.line).toMatch(/call-site\.test\.ts/);
    expect(weight.grad?.node.site).toBe(y.node.site);
  });
});

describe('the line of the user in a stack', () => {
  it.each([
    [
      'V8',
      `Error\n    at embedding (${ours.href}:5:1)\n    at run (file:///home/u/my%20model.ts:14:20)`,
      '/home/u/my model.ts:14:20',
    ],
    [
      'V8, where there is no function',
      'Error\n    at /home/u/train.js:3:7',
      '/home/u/train.js:3:7',
    ],
    [
      'V8, behind an await',
      'Error\n    at async step (/home/u/train.ts:9:3)',
      '/home/u/train.ts:9:3',
    ],
    [
      'V8, behind the engine',
      'Error\n    at Array.map (<anonymous>)\n    at node:internal/x:1:1\n    at f (/u/a.ts:1:2)',
      '/u/a.ts:1:2',
    ],
    [
      'V8, in a folder with parentheses',
      'Error\n    at step (file:///home/u/runs%20(old)/train.ts:9:3)',
      '/home/u/runs (old)/train.ts:9:3',
    ],
    [
      'V8, of a method with an alias, behind evaluated code',
      'Error\n    at eval (eval at f (/u/a.js:1:2), <anonymous>:1:1)\n    at Foo.bar [as baz] (/u/b.ts:2:3)',
      '/u/b.ts:2:3',
    ],
    [
      'V8, in a browser',
      'Error\n    at f (https://a.example/app.js:10:5)',
      'https://a.example/app.js:10:5',
    ],
    [
      'V8, in an installed launcher',
      'Error\n    at f (/u/node_modules/shardwise/dist/a.js:1:1)\n    at g (/u/b.ts:2:3)',
      '/u/b.ts:2:3',
    ],
    [
      'V8, in packages that the installer links',
      'Error\n    at f (/u/node_modules/.pnpm/a/node_modules/@shardwise/core/dist/bundle/a.js:1:1)\n    at g (/u/b.ts:2:3)',
      '/u/b.ts:2:3',
    ],
    [
      'other engines',
      'step@https://a.example/app.js:10:5\n@https://a.example/app.js:1:1',
      'https://a.example/app.js:10:5',
    ],
  ])('of %s', (_, stack, line) => {
    expect(userLine(stack)).toBe(line);
  });

  it('is null where nothing is known', () => {
    expect(userLine('')).toBeNull();
    expect(userLine(`Error\n    at f (${ours.href}:1:1)`)).toBeNull();
  });
});
