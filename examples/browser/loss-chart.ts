const namespace = 'http://www.w3.org/2000/svg';
const [width, height] = [480, 200];
const edge = { left: 34, right: 8, top: 8, bottom: 20 };

/** Shows the losses of a run as a curve, and the loss of a model that only knows pairs of bytes as a line. */
export class LossChart {
  readonly #losses: number[] = [];
  readonly element: SVGSVGElement;
  readonly #curve: SVGElement;
  readonly #line: SVGElement;
  readonly #labels: readonly SVGElement[];
  readonly #guess: number;
  readonly #first: number;
  readonly #steps: number;

  /** `first` is the number of the first update that the chart gets. */
  constructor(guess: number, steps: number, first = 1) {
    this.#guess = guess;
    this.#first = first;
    this.#steps = steps;
    this.element = document.createElementNS(namespace, 'svg');
    this.element.setAttribute('viewBox', `0 0 ${width} ${height}`);
    this.element.setAttribute('role', 'img');
    this.element.setAttribute('aria-label', 'The loss of each update: none yet');
    const floor = height - edge.bottom;
    this.#add('path', { class: 'axis', d: `M${edge.left} ${edge.top}V${floor}H${width}` });
    this.#line = this.#add('path', { class: 'guess' });
    this.#curve = this.#add('path', { class: 'loss' });
    this.#labels = [0, 1, 2].map((row) =>
      this.#add('text', { x: '0', y: String(edge.top + 8 + ((floor - edge.top - 8) * row) / 2) }),
    );
    const end = this.#add('text', { x: String(width - edge.right), y: String(height - 4) });
    end.setAttribute('text-anchor', 'end');
    end.textContent = `update ${steps}`;
    this.#draw();
  }

  add(loss: number): void {
    this.#losses.push(loss);
    this.#draw();
  }

  #draw(): void {
    const losses = this.#losses.filter(Number.isFinite);
    const most = Math.max(this.#guess, Math.log(256), ...losses);
    const placeY = (loss: number): number =>
      edge.top + (1 - loss / most) * (height - edge.top - edge.bottom);
    const placeX = (index: number): number =>
      edge.left + ((this.#first + index) / this.#steps) * (width - edge.left - edge.right);
    const points = this.#losses.map(
      (loss, index) => `${placeX(index).toFixed(1)} ${placeY(loss).toFixed(1)}`,
    );
    this.#curve.setAttribute('d', points.length === 0 ? '' : `M${points.join('L')}`);
    this.#line.setAttribute('d', `M${edge.left} ${placeY(this.#guess)}H${width - edge.right}`);
    for (const [row, label] of this.#labels.entries()) {
      label.textContent = (most * (1 - row / 2)).toFixed(1);
    }
    const last = this.#losses.at(-1);
    if (last === undefined) return;
    this.element.setAttribute(
      'aria-label',
      `The loss of each update: ${last.toFixed(2)} after ${this.#first + this.#losses.length - 1} of ${this.#steps}; pairs of bytes alone give ${this.#guess.toFixed(2)}`,
    );
  }

  #add(name: string, attributes: Readonly<Record<string, string>>): SVGElement {
    const element = document.createElementNS(namespace, name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    this.element.append(element);
    return element;
  }
}
