// A table of topics, sortable by its headings, whose cells change one by one: focus, selection and
// scrolling remain, and a hundred topics cost a few milliseconds a second.

const NUMBER = new Intl.NumberFormat();
const SORT_EVERY_MS = 3000;

function ago(ms) {
  const seconds = Math.max(0, Math.floor((Date.now() - ms) / 1000));
  if (seconds < 60) return `${seconds} s ago`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} m ago`;
  if (seconds < 172800) return `${Math.floor(seconds / 3600)} h ago`;
  return `${Math.floor(seconds / 86400)} d ago`;
}

// As everywhere: "0.4 s", "12 s", "3 m 20 s", "2 h 5 m", "3 d 4 h".
function span(seconds) {
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  const whole = Math.floor(seconds);
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} m ${whole % 60} s`;
  if (whole < 86400) return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} m`;
  return `${Math.floor(whole / 86400)} d ${Math.floor((whole % 86400) / 3600)} h`;
}

function words(kind, value) {
  if (value === null || value === undefined || value === '') return '-';
  if (kind === 'count') return NUMBER.format(Math.round(value));
  if (kind === 'seconds') return value === 0 ? '0' : span(value);
  if (kind === 'moment') return ago(value);
  return String(value);
}

class TopicTable {
  constructor(columns, marks, link) {
    this.columns = columns.filter((column) => column.kind !== 'trouble');
    this.troubles = columns.filter((column) => column.kind === 'trouble');
    this.marks = marks;
    this.link = link;
    this.rows = new Map(); // topic -> {values, tr, cells}
    this.sort = {name: 'need', down: false}; // what needs a person is first, then by name
    this.sortedAt = 0;
    this.root = document.createElement('div');
    this.root.className = 'scroll';
    const table = this.root.appendChild(document.createElement('table'));
    table.setAttribute('aria-label', 'Table topics');
    this.heads = this.makeHead(table.appendChild(document.createElement('thead')));
    this.body = table.appendChild(document.createElement('tbody'));
  }

  makeHead(head) {
    const tr = head.appendChild(document.createElement('tr'));
    return this.columns.map((column) => {
      const th = tr.appendChild(document.createElement('th'));
      th.scope = 'col';
      th.className = this.isNumber(column) ? 'right' : '';
      const button = th.appendChild(document.createElement('button'));
      button.type = 'button';
      button.textContent = column.title;
      button.addEventListener('click', () => this.sortBy(column));
      return th;
    });
  }

  isNumber(column) {
    return ['count', 'seconds', 'moment'].includes(column.kind);
  }

  sortBy(column) {
    const again = this.sort.name === column.name;
    // Numbers begin with the greatest: people look for what is furthest behind.
    this.sort = {name: column.name, down: again ? !this.sort.down : this.isNumber(column)};
    this.order();
  }

  setRows(rows) {
    this.body.replaceChildren();
    this.rows.clear();
    for (const values of rows) this.addRow(values);
    this.order();
  }

  addRow(values) {
    const tr = document.createElement('tr');
    const cells = this.columns.map((column, index) => {
      const cell = tr.appendChild(document.createElement(index === 0 ? 'th' : 'td'));
      if (index === 0) cell.scope = 'row';
      if (this.isNumber(column)) cell.className = 'right';
      return cell;
    });
    const row = {values: {...values}, tr, cells, below: null};
    this.rows.set(values.topic, row);
    this.columns.forEach((column, index) => this.fill(row, column, index));
    this.fillBelow(row);
  }

  // Errors need space: they have the whole width, below the figures, and no row if there are none.
  fillBelow(row) {
    const text = this.troubles.map((column) => row.values[column.name]).filter(Boolean).join(' ');
    row.tr.classList.toggle('has-below', Boolean(text));
    if (!text) {
      row.below?.remove();
      row.below = null;
      return;
    }
    if (row.below === null) {
      row.below = document.createElement('tr');
      row.below.className = 'below';
      const cell = row.below.appendChild(document.createElement('td'));
      cell.colSpan = this.columns.length;
      cell.appendChild(document.createElement('div'));
      row.tr.after(row.below);
    }
    const told = row.below.firstChild.firstChild;
    if (told.textContent !== text) told.textContent = text;
  }

  fill(row, column, index) {
    const cell = row.cells[index];
    const value = row.values[column.name];
    const text = words(column.kind, value);
    if (column.kind === 'link') {
      if (cell.firstChild) return;
      const a = cell.appendChild(document.createElement('a'));
      a.href = this.link.replace('TOPIC', encodeURIComponent(value));
      a.textContent = text;
    } else if (column.kind === 'state') {
      cell.textContent = text;
      cell.className = this.marks[value] || 'warn';
    } else if (cell.textContent !== text) {
      cell.textContent = text;
    }
  }

  // Whether all of these topics are known.
  change(changes) {
    let knowsAll = true;
    for (const [topic, values] of Object.entries(changes)) {
      const row = this.rows.get(topic);
      if (!row) {
        knowsAll = false;
        continue;
      }
      Object.assign(row.values, values);
      this.columns.forEach((column, index) => {
        if (column.name in values) this.fill(row, column, index);
      });
      this.fillBelow(row);
    }
    // Rows do not move while somebody is about to click, or tabs through them.
    const used = this.root.matches(':hover') || this.root.contains(this.root.getRootNode().activeElement);
    if (!used && performance.now() - this.sortedAt > SORT_EVERY_MS) this.order();
    return knowsAll;
  }

  order() {
    this.sortedAt = performance.now();
    const {name, down} = this.sort;
    const rows = [...this.rows.values()];
    const key = (row) => row.values[name];
    const unknown = (value) => value === null || value === undefined || value === '';
    rows.sort((one, other) => {
      const a = key(one);
      const b = key(other);
      if (unknown(a) || unknown(b)) return unknown(a) - unknown(b); // last, in either direction
      const order = typeof a === 'number' ? a - b : String(a).localeCompare(String(b));
      return (down ? -order : order) || one.values.topic.localeCompare(other.values.topic);
    });
    this.columns.forEach((column, index) => {
      const sorted = column.name === name ? (down ? 'descending' : 'ascending') : 'none';
      this.heads[index].setAttribute('aria-sort', sorted);
    });
    let at = this.body.firstChild;
    for (const tr of rows.flatMap((row) => (row.below ? [row.tr, row.below] : [row.tr]))) {
      if (tr === at) at = at.nextSibling;
      else this.body.insertBefore(tr, at);
    }
  }

  tick() {
    this.columns.forEach((column, index) => {
      if (column.kind !== 'moment') return;
      for (const row of this.rows.values()) this.fill(row, column, index);
    });
  }
}

export function render({model, el}) {
  const table = new TopicTable(model.columns, model.marks, model.address);
  el.appendChild(table.root);
  table.setRows(model.all.rows);
  model.on('all', () => table.setRows(model.all.rows));
  model.on('changes', () => {
    if (!table.change(model.changes)) model.send_msg('all');
  });
  // Changes between the page's creation and its display were sent to nobody.
  model.send_msg('all');
  const clock = setInterval(() => table.tick(), 1000);
  model.on('remove', () => clearInterval(clock));
}
