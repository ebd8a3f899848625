import { interpreter } from '@shardwise/testing';
import { beforeEach, describe, expect, test } from 'vitest';
import { SGD } from '../src/optim/sgd.ts';
import { nn } from '../src/index.ts';
import { Dropout } from '../src/nn/layers/dropout.ts';
import { Embedding } from '../src/nn/layers/embedding.ts';
import { Linear } from '../src/nn/layers/linear.ts';
import { Module, type Named } from '../src/nn/module/module.ts';
import { ModuleList } from '../src/nn/containers/module-list.ts';
import { BufferTensor, Parameter } from '../src/nn/parameter/parameter.ts';
import { ReLU } from '../src/nn/layers/activations.ts';
import { Sequential } from '../src/nn/containers/sequential.ts';
import { setRank } from '../src/rank.ts';
import { ConfigError } from '../src/spec/errors.ts';
import { tensor, zeros } from '../src/tensor/create.ts';
import type { Tensor } from '../src/tensor/tensor.ts';

const linear = (): Linear => new Linear(1, 1);
const parameter = (): Parameter => new Parameter(new Float32Array(1), [1]);

/** A module with one field. */
class Holder extends Module {
  readonly held: unknown;

  constructor(held: unknown) {
    super();
    this.held = held;
  }
}

beforeEach(() => setRank({ device: interpreter() }));

describe('a field that hides members is refused, by its name:', () => {
  test.each([
    ['an array of modules', () => [linear()], 'a Linear inside an array'],
    ['an array of arrays', () => [[1, 'a', linear()]], 'a Linear inside an array'],
    ['a plain object of modules', () => ({ a: linear() }), 'a Linear inside a plain object'],
    [
      'an object without prototype',
      () => Object.assign(Object.create(null), { a: linear() }),
      'a Linear inside a plain object',
    ],
    ['a Map of modules', () => new Map([['a', linear()]]), 'a Linear inside a Map'],
    ['a Map with modules as keys', () => new Map([[linear(), 1]]), 'a Linear inside a Map'],
    ['a Set of parameters', () => new Set([parameter()]), 'a Parameter inside a Set'],
    [
      'an object in a Map',
      () => new Map([['a', { b: parameter() }]]),
      'a Parameter inside a plain object',
    ],
    [
      'an array of buffers',
      () => [new BufferTensor(new Float32Array(1), [1])],
      'a BufferTensor inside an array',
    ],
    ['a tensor that requires a gradient', () => zeros([1]).detach().requiresGrad, ''],
    [
      'a leaf that requires a gradient',
      () => tensor([1]).requiresGrad_(),
      'a tensor that requires a gradient and is no Parameter',
    ],
    [
      'an array of such leaves',
      () => [tensor([1]).requiresGrad_()],
      'a tensor that requires a gradient inside an array and is no Parameter',
    ],
  ])('%s', (_, held, what) => {
    const module = new Holder(held());
    if (what === '') {
      expect(module.parameters()).toEqual([]);
      return;
    }
    const looks: (() => unknown)[] = [
      () => module.parameters(),
      () => module.namedParameters(),
      () => module.namedBuffers(),
      () => module.namedModules(),
      () => module.children,
      () => module.namedState(),
      () => module.train(),
      () => module.eval(),
      () => module.zeroGrad(),
      () => module.requiresGrad_(false),
      () => module.apply(() => {}),
      () => module.stateDict(),
      () => module.loadStateDict({}),
      () => new Sequential(new Relay(module)).parameters(),
    ];
    for (const look of looks) {
      expect(look).toThrow(ConfigError);
      expect(look).toThrow(`the members of Holder: ${what} in the field 'held', where`);
    }
    expect(module.toString()).toBe('Holder()');
  });

  test.each([
    ['numbers and options', () => ({ heads: 4, stride: [1, 2], name: 'a' })],
    ['tensors that do not train', () => [tensor([1]), tensor([2])]],
    ['a tensor that is computed from one that does', () => parameter().mul(2)],
    ['objects of classes, as an optimizer', () => new SGD([parameter()])],
    ['functions', () => () => linear()],
    ['an array that contains itself', () => itself()],
  ])('but not %s', (_, held) => {
    expect(new Holder(held()).parameters()).toEqual([]);
  });

  test('but not a second way to what a field of its own holds', () => {
    class Both extends Module {
      a = linear();
      b = new Sequential(linear());
      readonly all: readonly unknown[] = [this.a, this.b.at(0), this.a.weight];
    }
    expect(new Both().parameters()).toHaveLength(4);
  });

  test('a module of another copy of the package', () => {
    class Foreign {
      static {
        const brand = Symbol.for('@shardwise/core member');
        Object.defineProperty(this.prototype, brand, { value: { kind: 'module' } });
      }
    }
    expect(() => new Holder(new Foreign()).parameters()).toThrow(
      "a Foreign of another copy of @shardwise/core in the field 'held'",
    );
  });
});

/** A module around another one. */
class Relay extends Module {
  readonly inner: Module;

  constructor(inner: Module) {
    super();
    this.inner = inner;
  }

  forward(x: Tensor): Tensor {
    return x;
  }
}

function itself(): unknown[] {
  const list: unknown[] = [];
  list.push(list);
  return list;
}

describe('a module that a constructor makes and no field holds is missed:', () => {
  const missed = (make: () => Module, names: string): void => {
    expect(() => make().parameters()).toThrow(ConfigError);
    expect(() => make().parameters()).toThrow(`constructor makes ${names} that no public field`);
    expect(() => make().train()).toThrow(names);
    expect(() => make().stateDict()).toThrow(names);
    expect(() => new Relay(make()).namedModules()).toThrow(names);
    const [first, second] = [make(), make()];
    expect(() => first.parameters()).toThrow(names);
    expect(() => second.parameters()).toThrow(names);
    expect(make().toString()).toContain('(');
  };

  test('in a #private field', () => {
    class Outer extends Module {
      readonly #head = linear();
      forward(x: Tensor): Tensor {
        return this.#head.forward(x);
      }
    }
    missed(() => new Outer(), 'a Linear');
  });

  test('in a #private field that the constructor sets, beside public ones', () => {
    class Outer extends Module {
      a: Linear;
      readonly #b: Dropout;
      c: Linear;
      constructor() {
        super();
        this.a = linear();
        this.#b = new Dropout();
        this.c = linear();
      }
      forward(x: Tensor): Tensor {
        return this.#b.forward(x);
      }
    }
    missed(() => new Outer(), 'a Dropout');
  });

  test('in #private fields of a class between', () => {
    class Base extends Module {
      readonly #a = linear();
      readonly #b = new ReLU();
      use(x: Tensor): Tensor {
        return this.#b.forward(this.#a.forward(x));
      }
    }
    class Middle extends Base {}
    class Outer extends Middle {
      c = linear();
      constructor(readonly_ = 1) {
        super();
        this.use(zeros([readonly_, 1]));
      }
    }
    missed(() => new Outer(), '2 members (Linear, ReLU)');
  });

  test('a parameter and a buffer in #private fields', () => {
    class Outer extends Module {
      readonly #scale = parameter();
      readonly #steps = new BufferTensor(Int32Array.of(0), [], { dtype: 'i32' });
      layer = linear();
      forward(x: Tensor): Tensor {
        return this.layer.forward(x).mul(this.#scale).add(this.#steps.to('f32'));
      }
    }
    missed(() => new Outer(), '2 members (Parameter, BufferTensor)');
    class Last extends Module {
      readonly #scale = parameter();
      get scale(): Parameter {
        return this.#scale;
      }
    }
    missed(() => new Last(), 'a Parameter');
  });

  test('in a #private list, made by a helper', () => {
    const build = (count: number): Linear[] => Array.from({ length: count }, () => linear());
    class Outer extends Module {
      readonly #layers = new ModuleList(build(2));
      get count(): number {
        return this.#layers.length;
      }
    }
    missed(() => new Outer(), '3 members (Linear, ModuleList)');
  });

  test('in a closure, a WeakMap or behind a symbol, before other modules', () => {
    const hidden = new WeakMap<object, Module>();
    const key = Symbol('hidden');
    class Outer extends Module {
      [key]: Module;
      readonly run: () => Module;
      last: Linear;
      constructor() {
        super();
        const closed = linear();
        this.run = () => closed;
        hidden.set(this, new Dropout());
        this[key] = new ReLU();
        this.last = linear();
      }
    }
    missed(() => new Outer(), '3 members (Linear, Dropout, ReLU)');
  });

  test('deep inside a model', () => {
    class Block extends Module {
      readonly #norm = linear();
      forward(x: Tensor): Tensor {
        return this.#norm.forward(x);
      }
    }
    class Net extends Module {
      head = linear();
      blocks = new ModuleList(Array.from({ length: 3 }, () => new Block()));
    }
    const net = new Net();
    expect(() => net.parameters()).toThrow('the members of Block: its constructor makes a Linear');
  });

  test('also when the model is asked in a later turn', async () => {
    class Outer extends Module {
      readonly #head = linear();
      get weight(): Parameter {
        return this.#head.weight;
      }
    }
    const outer = new Outer();
    await Promise.resolve();
    expect(() => outer.parameters()).toThrow('a Linear');
    expect(() => outer.parameters()).toThrow('a Linear');
  });
});

describe('nothing is missed of', () => {
  const parametersOf = (module: Module): number => module.parameters().length;

  test('modules that are passed in, or made before super()', () => {
    class Wrapper extends Module {
      readonly #inner: Module;
      constructor(inner: Module = new Sequential(linear())) {
        super();
        this.#inner = inner;
      }
      get inner(): Module {
        return this.#inner;
      }
    }
    expect(parametersOf(new Wrapper(linear()))).toBe(0);
    expect(parametersOf(new Wrapper())).toBe(0);
  });

  test('lists, of which the constructor is given what it holds, many of them in a row', () => {
    class Block extends Sequential {
      constructor(layers = 1) {
        super(...Array.from({ length: layers }, linear), new ReLU());
      }
    }
    const blocks: Block[] = [];
    for (let index = 0; index < 4; index++) blocks.push(new Block(index));
    expect(blocks.map(parametersOf)).toEqual([0, 2, 4, 6]);
    const list = new ModuleList(Array.from({ length: 4 }, (_, index) => new Block(index)));
    expect(parametersOf(list)).toBe(12);
  });

  test('a module that is made beside another one', () => {
    const outer = new Relay(linear());
    const other = linear();
    expect(parametersOf(outer)).toBe(2);
    expect(parametersOf(other)).toBe(2);
  });

  test('containers that list their modules themselves', () => {
    class Named_ extends Module {
      readonly #modules: ReadonlyMap<string, Linear> = new Map([['a', linear()]]);
      override namedChildren(): Named<Module>[] {
        return [...this.#modules];
      }
    }
    expect(new Named_().namedParameters().map(([name]) => name)).toEqual(['a.weight', 'a.bias']);
    class Both extends Named_ {
      b = linear();
      readonly list = [this.b];
      override namedChildren(): Named<Module>[] {
        return [...super.namedChildren(), ['b', this.b]];
      }
    }
    class Own extends Module {
      b = linear();
      readonly #hidden = linear();
      readonly list = [linear()];
      override namedChildren(): Named<Module>[] {
        return [...super.namedChildren(), ['hidden', this.#hidden]];
      }
    }
    expect(new Both().namedModules().map(([name]) => name)).toEqual(['', 'a', 'b']);
    expect(() => new Own().parameters()).toThrow("a Linear inside an array in the field 'list'");
  });

  test('a model whose last layers are replaced or dropped after it was made', () => {
    class Net extends Module {
      body = new Sequential(linear(), new ReLU());
      head: Linear | Sequential | null = new Sequential(linear(), linear());
    }
    const [fresh, dropped, shared] = [new Net(), new Net(), new Net()];
    fresh.head = linear();
    expect(parametersOf(fresh)).toBe(4);
    const last = new Net();
    last.head = null;
    expect(parametersOf(last)).toBe(2);
    dropped.head = null;
    shared.head = fresh.head;
    expect([dropped, shared].map(parametersOf)).toEqual([2, 4]);
  });

  test('layers that share a parameter, of which one was made for nothing', () => {
    class Tied extends Module {
      tokens = new Embedding(3, 2);
      head = new Linear(2, 3, { bias: false });
      scale = parameter();
      readonly #kind = 'tied';
      constructor() {
        super();
        this.head.weight = this.tokens.weight;
        this.scale = parameter();
      }
      get kind(): string {
        return this.#kind;
      }
    }
    expect(parametersOf(new Tied())).toBe(2);
    const head = new Linear(2, 3, { bias: false });
    head.weight = new Tied().tokens.weight;
    expect(parametersOf(head)).toBe(1);
  });

  test('parameters that strategies put into the place of others', () => {
    class Part extends Parameter {}
    const model = new Sequential(linear(), linear());
    const parts = model
      .parameters()
      .map((old) => [old, new Part(new Float32Array(old.numel), old.shape)] as const);
    model.replaceParameters(new Map(parts));
    expect(model.parameters().every((each) => each instanceof Part)).toBe(true);
  });

  test('two parts that share a module, of which one was made for nothing', () => {
    class Part extends Module {
      tokens = new Embedding(2, 2);
      layer = linear();
    }
    class Both extends Module {
      encoder = new Part();
      decoder = new Part();
      constructor() {
        super();
        this.decoder.tokens = this.encoder.tokens;
      }
    }
    expect(parametersOf(new Both())).toBe(5);
  });

  test('modules that a class with #private fields holds in public ones later', async () => {
    class Late extends Module {
      layer: Linear | null = null;
      readonly #ready: Promise<void>;
      constructor() {
        super();
        this.#ready = this.#load();
      }
      async #load(): Promise<void> {
        const layer = linear();
        await Promise.resolve();
        this.layer = layer;
      }
      get ready(): Promise<void> {
        return this.#ready;
      }
    }
    const late = new Late();
    expect(() => late.parameters()).toThrow('a Linear');
    await late.ready;
    expect(parametersOf(late)).toBe(2);
  });

  test('what is made inside constructTemporary', () => {
    class Outer extends Module {
      weight = nn.constructTemporary(() => new Sequential(linear()).parameters()[0] ?? parameter());
      layer = linear();
      readonly #scale = 2;
      get scale(): number {
        return this.#scale;
      }
    }
    expect(parametersOf(new Outer())).toBe(3);
    expect(() => nn.constructTemporary(async () => linear())).toThrow(
      'constructTemporary with a body',
    );
  });

  test('a constructor that looks at its members before it has ended', () => {
    class Outer extends Module {
      a: Linear;
      #count: number;
      constructor() {
        super();
        const a = linear();
        this.#count = this.parameters().length;
        this.a = a;
        this.apply((module) => module.train());
      }
      get count(): number {
        return this.#count;
      }
    }
    expect(new Outer().count).toBe(0);
    expect(parametersOf(new Outer())).toBe(2);
  });

  test('a constructor that throws, and what comes after it', () => {
    class Failing extends Module {
      a = linear();
      constructor() {
        super();
        linear();
        throw new Error('no');
      }
    }
    class Outer extends Module {
      a = linear();
    }
    expect(() => new Failing()).toThrow('no');
    expect(parametersOf(new Outer())).toBe(2);
    class Careful extends Module {
      b = nn.constructTemporary(() => {
        try {
          return new Failing().a;
        } catch {
          return linear();
        }
      });
    }
    expect(parametersOf(new Careful())).toBe(2);
  });

  test('modules that contain modules of their own class', () => {
    class Tree extends Module {
      leaf = linear();
      kids: ModuleList<Tree>;
      constructor(depth: number) {
        super();
        const kids = depth === 0 ? [] : [new Tree(depth - 1), new Tree(depth - 1)];
        this.kids = new ModuleList(kids);
      }
    }
    expect(parametersOf(new Tree(3))).toBe(30);
    class Nested extends Sequential {
      constructor(depth: number) {
        super(...(depth === 0 ? [linear()] : [new Nested(depth - 1), new Nested(depth - 1)]));
      }
    }
    expect(parametersOf(new Sequential(new Nested(3), new Nested(1)))).toBe(20);
  });
});

describe('the constructions', () => {
  test('keep no model alive', async () => {
    class Outer extends Module {
      a = linear();
      readonly #b = linear();
      get b(): Linear {
        return this.#b;
      }
    }
    const dropped = new FinalizationRegistry<string>((name) => collected.push(name));
    const collected: string[] = [];
    const make = (): void => {
      const outer = new Outer();
      dropped.register(outer, 'outer');
      dropped.register(outer.b, 'inner');
      expect(() => outer.parameters()).toThrow('a Linear');
    };
    make();
    const { setFlagsFromString } = await import('node:v8');
    const { runInNewContext } = await import('node:vm');
    setFlagsFromString('--expose-gc');
    const collect: unknown = runInNewContext('gc');
    for (let turn = 0; turn < 20 && collected.length < 2; turn++) {
      if (typeof collect === 'function') collect();
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    expect(collected.toSorted()).toEqual(['inner', 'outer']);
  });

  test('leave the stacks of errors as they were', () => {
    const before = { ...Object.getOwnPropertyDescriptors(Error) };
    expect(linear().parameters()).toHaveLength(2);
    expect(Object.getOwnPropertyDescriptors(Error)).toEqual(before);
  });
});

describe('a list of modules', () => {
  test.each([
    [
      'an array of layers in the place of layers',
      () => new Sequential([linear()] as never),
      'a Sequential of modules: an array of 1 among them. Give it modules one by one',
    ],
    [
      'a module in the place of a list',
      () => new ModuleList(linear() as never),
      'a ModuleList of modules: a Linear among them. Give it a list',
    ],
    [
      'a function',
      () => new Sequential(((x: Tensor) => x.relu()) as never),
      'a function among them',
    ],
    ['nothing', () => new ModuleList().append(undefined as never), 'undefined among them'],
  ])('refuses %s', (_, make, says) => {
    expect(make).toThrow(ConfigError);
    expect(make).toThrow(says);
  });
});
