/**
 * The script of the page that shows what lies under the pointer. It is plain JavaScript, and adds text only as text
 * nodes.
 */
export const hoverScript = `
const tip = document.getElementById('tip');
const place = (event) => {
  const box = tip.getBoundingClientRect();
  const left = event.clientX + 16 + box.width > innerWidth ? event.clientX - box.width - 16 : event.clientX + 16;
  tip.style.left = Math.max(4, left) + 'px';
  tip.style.top = Math.min(event.clientY + 16, innerHeight - box.height - 4) + 'px';
  tip.style.visibility = 'visible';
};
const add = (parent, tag, text) => {
  const element = parent.appendChild(document.createElement(tag));
  element.textContent = text;
  return element;
};
const hide = () => { tip.style.visibility = 'hidden'; };
for (const chart of document.querySelectorAll('svg[data-hover]')) {
  const { series, rows } = JSON.parse(chart.dataset.hover);
  const cursor = chart.querySelector('.cursor');
  chart.addEventListener('pointermove', (event) => {
    const matrix = chart.getScreenCTM();
    const x = (event.clientX - matrix.e) / matrix.a;
    const nearest = rows.reduce((a, b) => (Math.abs(b[0] - x) < Math.abs(a[0] - x) ? b : a), rows[0]);
    if (!nearest) return;
    const [at, heading, values] = nearest;
    cursor.setAttribute('x1', at);
    cursor.setAttribute('x2', at);
    cursor.style.visibility = 'visible';
    tip.replaceChildren();
    add(tip, 'b', heading);
    for (const [index, [name, colour]] of series.entries()) {
      if (values[index] === null) continue;
      const row = add(tip, 'div', '');
      add(row, 'i', '').style.background = colour;
      row.append(name + '  ' + values[index]);
    }
    place(event);
  });
  chart.addEventListener('pointerleave', () => { cursor.style.visibility = 'hidden'; hide(); });
}
for (const box of document.querySelectorAll('[data-tip]')) {
  box.addEventListener('pointermove', (event) => {
    const [name, ...rest] = box.dataset.tip.split('\\n');
    tip.replaceChildren();
    add(tip, 'b', name);
    tip.append(rest.join('\\n'));
    place(event);
  });
  box.addEventListener('pointerleave', hide);
}
`;
